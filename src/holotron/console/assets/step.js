// One step in words: who did what, why, what was said about it, what it took.
import { $, count, element, keyed, seconds, setText } from "./dom.js";
import { kindOf } from "./kinds.js";

const DOING = { thought: "wants to", asked: "wants to", left: "had in mind", refused: "was not allowed to" };

// While the agent is still looking, the step before says more.
export function latest(cards, all) {
  const last = all.length ? cards.get(all[all.length - 1]) : null;
  return last?.state === "seen" && all.length > 1 ? cards.get(all[all.length - 2]) : last;
}

export function drawStep(session, card, atEnd) {
  if (!card || atEnd) {
    setText($("by"), atEnd ? "The end" : "");
    setText($("action"), atEnd ? session.answer || session.error || kindOf(session).word : "");
    texts(atEnd && session.answer && session.error ? [["Why it ended", session.error, "plain"]] : []);
    return;
  }
  const who = card.author === "person" ? "A person" : "The agent";
  setText($("by"), `Step ${card.index + 1} · ${card.state === "seen" ? (session.state === "ended" ? "seen" : "being looked at") : `${who} ${DOING[card.state] || "did this"}`}`);
  setText($("action"), card.action_said || (card.error ? "an unusable reply" : "…"));
  const tokens = card.tokens && card.tokens.some(Boolean) ? `${count(card.tokens[0])} read (${count(card.tokens[1])} cached) · ${count(card.tokens[2])} written` : "";
  const took = [card.policy_seconds ? `${seconds(card.policy_seconds)} to think` : "", card.environment_seconds ? `${seconds(card.environment_seconds)} to act` : ""].filter(Boolean).join(" · ");
  texts([
    ["The agent had proposed", card.proposed_said, "plain"],
    [card.author === "person" ? "Why" : "Thought", card.thought, "plain"],
    ["Unusable", card.error, "wrong"],
    ["A person said no to", card.refused, "wrong"],
    ["Before this, the user said", card.instruction, "plain"],
    ["Note", card.note, "plain"],
    ...(card.steered || []).map((note) => [told(note), note.text || note.question || "–", "plain"]),
    ["The environment says", card.notice, "plain"],
    ["Not recorded", card.private ? "what was typed here, into a private field" : "", "plain"],
    ["Took", took, "plain"],
    ["Tokens", tokens, "plain"],
    ["Reasoning", card.reasoning, "folded"],
    ["Raw reply", card.text, "folded"],
  ]);
}

function told(note) {
  const took = note.seconds ? ` after ${seconds(note.seconds)}` : "";
  if (note.what === "answered") return `A person said ${note.allow ? "yes" : "no"}${note.reason ? `, “${note.reason}”,` : ""}${took}`;
  return { released: `It was held for ${seconds(note.seconds || 0)}`, "handed back": `A person had control for ${seconds(note.seconds || 0)}`, instructed: "A person said", stopped: "A person stopped it" }[note.what] || note.what;
}

// Titled texts; `folded` ones can be opened. Nodes are kept, so an opened one stays open.
function texts(rows) {
  const given = new Map(rows.filter(([, text]) => text).map((row) => [row[0], row]));
  keyed($("texts"), [...given.keys()], (title) => {
    if (given.get(title)[2] === "folded") return element("details", {}, element("summary", { textContent: title }), element("pre"));
    return element("div", {}, element("h4", { textContent: title }), element("p", { class: given.get(title)[2] }));
  }, (node, title) => setText(node.lastChild, given.get(title)[1]));
}
