// All sessions as tiles, the worst first. Tiles keep their place while their kind stays the same, so nothing jumps about.
import { $, count, element, frameUrl, keyed, money, one, seconds, setImage, setText, show } from "./dom.js";
import { FILTERS, kindOf } from "./kinds.js";

const FIRST = 60; // tiles; more on demand
let filter = "all";
let limit = FIRST;
let redraw = () => {};

export function setUpOverview(changed) {
  redraw = changed;
  for (const [name, label] of FILTERS) {
    const radio = element("input", { type: "radio", name: "kind", value: name, checked: name === filter });
    radio.addEventListener("change", () => { filter = name; limit = FIRST; redraw(); });
    $("kinds").append(element("label", { class: "chip" }, radio, element("span", { textContent: label }), element("b", { className: "n" })));
  }
  $("search").addEventListener("input", () => { limit = FIRST; redraw(); });
  $("more").addEventListener("click", () => { limit += 120; redraw(); });
}

export function drawOverview(store) {
  const all = [...store.sessions.values()].map((session) => ({ session, ...kindOf(session) }));
  FILTERS.forEach(([, , fits], index) => setText($("kinds").children[index].querySelector(".n"), String(all.filter((item) => fits(item.kind)).length)));
  const words = $("search").value.trim().toLowerCase();
  const fits = FILTERS.find(([name]) => name === filter)[2];
  const found = all
    .filter((item) => fits(item.kind) && (!words || `${item.session.id} ${item.session.goal || ""} ${item.word}`.toLowerCase().includes(words)))
    .sort((a, b) => a.rank - b.rank || (a.session.started ?? 0) - (b.session.started ?? 0) || (a.session.id < b.session.id ? -1 : 1));
  const byId = new Map(found.map((item) => [item.session.id, item]));
  keyed($("tiles"), found.slice(0, limit).map((item) => item.session.id), makeTile, (node, id) => drawTile(node, byId.get(id), store.run));
  show($("more"), found.length > limit);
  show($("problem"), Boolean(store.run.problem));
  setText($("problem"), store.run.problem || "");
  show($("no-tiles"), !found.length);
  setText($("no-tiles"), all.length ? "No session fits." : store.run.live ? "No session has begun yet." : "Nothing is on record here.");
  drawTotals(store, all);
}

function makeTile(id) {
  const link = element("a", { href: `#/s/${encodeURIComponent(id)}`, class: "tile" });
  link.append(
    element("span", { class: "thumb" }, element("img", { alt: "", loading: "lazy", draggable: false })),
    element("span", { class: "tile-state" }, element("span", { class: "dot" }), element("span", { class: "word" }), element("span", { class: "time" })),
    element("span", { class: "tile-name" }),
    element("span", { class: "tile-goal" }),
    element("span", { class: "tile-last" }),
    element("span", { class: "tile-cost" }),
  );
  return element("li", {}, link);
}

function drawTile(node, { session, kind, word }, run) {
  const part = (name) => node.querySelector(`.${name}`);
  const tile = part("tile");
  if (tile.dataset.kind !== kind) tile.dataset.kind = kind;
  setImage(part("thumb").firstChild, frameUrl(session.thumb, true));
  setText(part("word"), word);
  setText(part("time"), session.state === "ended" ? seconds(session.seconds) : "");
  setText(part("tile-name"), session.task ? `${session.task}${session.seed ? ` · ${session.seed}` : ""}` : session.id);
  setText(part("tile-goal"), session.goal || "");
  const last = session.question ? session.question.summary : session.state === "ended" ? session.answer || session.error || session.last : session.last;
  setText(part("tile-last"), last || "");
  const [prompt = 0, , generated = 0] = session.tokens || [];
  const spent = [one(session.steps ?? 0, "step"), prompt || generated ? `${count(prompt + generated)} tokens` : "", money(session.money, run.currency), session.assisted ? "with help" : ""];
  setText(part("tile-cost"), spent.filter(Boolean).join(" · "));
}

function drawTotals(store, all) {
  const run = store.run;
  const running = all.filter((item) => item.session.state !== "ended").length;
  const done = run.done ?? all.length - running;
  const figures = [
    ["running", running || (run.live ? 0 : null)],
    ["done", run.total ? `${done} of ${run.total}` : done],
    ["success", run.scored ? `${((100 * run.successes) / run.scored).toFixed(0)} %` : null],
    ["steps/s", run.live && run.rate ? run.rate.toFixed(1) : null],
    ["listed", run.listed < run.recorded ? `the last ${run.listed} of ${run.recorded}` : null],
  ].filter(([, value]) => value !== null && value !== undefined);
  keyed($("totals"), figures.map(([name]) => name), (name) => element("div", {}, element("dt", { textContent: name }), element("dd")),
    (node, name) => setText(node.querySelector("dd"), String(figures.find(([other]) => other === name)[1])));
}
