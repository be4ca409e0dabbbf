// The past as a strip of pictures: one for every step, the one that is shown marked.
import { $, element, frameUrl, keyed, setImage, setText } from "./dom.js";

let drawn = "";

export function drawFilm(cards, all, shown) {
  setText($("position"), shown === null ? "" : `step ${shown + 1} of ${all.length}`);
  const key = JSON.stringify([shown, all.map((number) => { const card = cards.get(number); return [card.session, number, card.frame, card.state, card.author, card.action_said]; })]);
  if (key === drawn) return;
  drawn = key;
  keyed($("film"), all.map(String), makeFrame, (node, number) => {
    const card = cards.get(Number(number));
    const button = node.firstChild;
    setImage(button.querySelector("img"), frameUrl(card.frame, true));
    setText(button.querySelector(".n"), String(card.index + 1));
    setText(button.querySelector(".what"), card.action_said || (card.error ? "unusable reply" : "…"));
    button.dataset.author = card.author || "agent";
    button.dataset.state = card.state;
    const current = card.index === shown;
    button.tabIndex = current ? 0 : -1;
    if (current) button.setAttribute("aria-current", "step");
    else button.removeAttribute("aria-current");
  });
  const current = $("film").querySelector("[aria-current]");
  if (current) $("film").scrollTo({ left: current.offsetLeft - $("film").clientWidth / 2 + current.clientWidth / 2 });
}

function makeFrame() {
  const picture = element("span", { class: "thumb" }, element("img", { alt: "", loading: "lazy", draggable: false }));
  const by = element("span", { class: "unseen by-person", textContent: "by a person: " });
  return element("li", {}, element("button", { type: "button", class: "frame" }, picture, element("span", { class: "n" }), by, element("span", { class: "what" })));
}
