// How a session stands, in one word, and how much it wants looking at: the worst come first.
const STATES = {
  starting: "starts", thinking: "thinks", acting: "acts", looking: "looks", asked: "asks you", held: "waits for you", person: "in your hands", ended: "ended",
};
const OUTCOMES = {
  success: "success", failure: "failure", exhausted: "out of steps or time", stuck: "stuck", unscored: "answered",
  policy_error: "policy error", environment_error: "environment error",
};

// kind: what it is coloured by and filtered as; rank: the lower, the sooner it is shown.
export function kindOf(session) {
  if (session.state === "ended") {
    const word = session.error === "stopped by a person" ? "stopped" : OUTCOMES[session.outcome] || session.outcome || "ended";
    if (session.outcome === "success") return { kind: "good", rank: 8, word };
    if (session.outcome === "unscored") return { kind: "done", rank: 7, word };
    if (session.outcome.endsWith("_error")) return { kind: "bad", rank: 4, word };
    return { kind: "bad", rank: 6, word };
  }
  const word = STATES[session.state] || session.state;
  if (session.question || session.state === "asked") return { kind: "asks", rank: 0, word: "asks you" };
  if (session.state === "held") return { kind: "asks", rank: 1, word };
  if (session.taken) return { kind: "asks", rank: 1, word: "in your hands" };
  if (session.trouble === "stuck") return { kind: "trouble", rank: 2, word: `${word}, goes in circles` };
  if (session.trouble === "refused") return { kind: "trouble", rank: 2, word: `${word}, nothing is carried out` };
  if (session.trouble === "again") return { kind: "trouble", rank: 3, word: `${word}, attempt ${session.attempt + 1}` };
  return { kind: "running", rank: 5, word };
}

export const FILTERS = [
  ["all", "All", () => true],
  ["asks", "Needs you", (kind) => kind === "asks"],
  ["trouble", "In trouble", (kind) => kind === "trouble"],
  ["running", "Running", (kind) => kind === "running" || kind === "trouble" || kind === "asks"],
  ["bad", "Failed", (kind) => kind === "bad"],
  ["ended", "Done", (kind) => kind === "good" || kind === "done"],
];
