// The page: which view is shown, the connection, the keyboard. The address behind # says what is looked at, so a reload
// or a bookmark comes back to it.
import { $, announce, one, remember, remembered, setText, show } from "./dom.js";
import { kindOf } from "./kinds.js";
import { drawOverview, setUpOverview } from "./overview.js";
import { SessionView } from "./session.js";
import { Store } from "./store.js";

const store = new Store();
const view = new SessionView(store);
let queued = false;
let first = true;
let focus = "none"; // where the focus goes when the next view is drawn: none, view, search
let before = null; // the session that was looked at last
let waited = 0; // how many sessions waited for somebody when that was last said

function chosen() {
  if (!location.hash.startsWith("#/s/")) return null;
  try { return decodeURIComponent(location.hash.slice(4)); } catch { return null; } // half an address
}

async function route() {
  const id = chosen();
  const to = focus;
  focus = "view";
  view.opened();
  await store.open(id);
  draw();
  requestAnimationFrame(() => requestAnimationFrame(() => moveFocus(to)));
}

// Whoever goes from view to view by keyboard, or hears the page, is taken along; back to the tile they came from.
function moveFocus(to) {
  const tile = store.chosen === null && before !== null ? $("tiles").querySelector(`[data-key="${CSS.escape(before)}"] a`) : null;
  if (to === "search") $("search").focus();
  else if (to === "view") (tile || $("main")).focus({ preventScroll: !tile });
  before = store.chosen ?? before;
}

// However often something changes, it is drawn once a frame.
function draw() {
  if (queued) return;
  queued = true;
  requestAnimationFrame(() => {
    queued = false;
    drawNow();
  });
}

function drawNow() {
  const only = store.sessions.size === 1 && !(store.run.total > 1);
  if (first && store.sessions.size) {
    first = false;
    if (only && chosen() === null) {
      focus = "none";
      location.replace(`#/s/${encodeURIComponent([...store.sessions.keys()][0])}`);
      return;
    }
  }
  drawTop(only);
  const here = store.chosen !== null && store.sessions.has(store.chosen);
  show($("overview"), !here);
  show($("session"), here);
  if (here) view.draw();
  else drawOverview(store);
}

function drawTop(only) {
  const run = store.run;
  setText($("title"), run.title || "holotron");
  const about = [run.policy, run.suite, run.folder].filter((text, place, all) => text && all.indexOf(text) === place && text !== run.title);
  setText($("about"), about.join(" · "));
  show($("pause-all"), Boolean(run.live) && !only && chosen() === null);
  setText($("pause-all"), run.paused ? "Resume all" : "Pause all");
  show($("to-overview"), !only);
  const waiting = [...store.sessions.values()].filter((session) => kindOf(session).rank <= 1 && session.state !== "ended").length;
  document.title = `${waiting ? `(${waiting}) ` : ""}${run.title || "holotron"} · holotron`;
  if (waiting > waited && chosen() === null) announce(`${one(waiting, "session")} waiting for you`);
  waited = waiting;
}

function connection(kind, text) {
  $("connection").dataset.kind = kind;
  setText($("connection"), text);
}

store.addEventListener("changes", () => {
  if (store.run.over) connection("over", "ended");
  draw();
});
store.addEventListener("connected", () => {
  connection(store.run.live ? "live" : "over", store.run.live ? "live" : store.run.over ? "ended" : "recorded");
  show($("gone"), false);
});
store.addEventListener("lost", () => {
  const again = store.run.folder ? ` “holotron watch ${store.run.folder}” opens it again.` : "";
  connection("lost", store.run.over ? "ended" : "reconnecting");
  setText($("gone"), store.run.over ? `The run has ended and its page is closed; what you see stays.${again}` : "The connection is lost. Trying again…");
  show($("gone"), true);
});
store.addEventListener("missing", () => {
  setText($("gone"), "There is no such session here.");
  show($("gone"), true);
  location.hash = "#/";
});

addEventListener("hashchange", route);

// In the background: no stream, no pictures; only the title says whether somebody is wanted.
let sleeping = null;
document.addEventListener("visibilitychange", () => {
  clearInterval(sleeping);
  if (!document.hidden) return store.wake();
  store.sleep();
  sleeping = setInterval(async () => {
    try {
      const { waiting } = await store.pulse();
      document.title = `${waiting ? `(${waiting}) ` : ""}${store.run.title || "holotron"} · holotron`;
    } catch { /* it is gone, or sleeps itself */ }
  }, 5000);
  return undefined;
});

// ----------------------------------------------------------------------------------------------------------- controls

$("pause-all").addEventListener("click", async () => {
  try {
    await store.command("*", { do: store.run.paused ? "resume" : "pause" });
    announce(store.run.paused ? "All go on." : "All stop before their next action.");
  } catch (problem) {
    announce(`Not done: ${problem.message}`, true);
  }
});

function search() {
  if (chosen() === null) return $("search").focus();
  focus = "search";
  location.hash = "#/";
  return undefined;
}

function theme(name) {
  document.documentElement.dataset.theme = name;
}
theme(remembered("theme", matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
$("theme").addEventListener("click", () => {
  theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  remember("theme", document.documentElement.dataset.theme);
});
$("help").addEventListener("click", () => $("about-keys").showModal());
$("letters").checked = remembered("letters", "on") === "on";
$("letters").addEventListener("change", () => remember("letters", $("letters").checked ? "on" : "off"));

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("about-keys").open) return;
  if (event.target.closest("input, select, textarea, #screen.in-hand")) return;
  const inSession = !$("session").hidden && view.session;
  const running = inSession && view.session.state !== "ended" && store.run.live;
  const moves = inSession ? { ArrowLeft: () => view.move(-1), ArrowRight: () => view.move(1), Home: () => view.move(-Infinity), End: () => view.move(Infinity) } : {};
  const letters = $("letters").checked
    ? { "/": search, a: () => { location.hash = "#/"; },
        ...(running ? { p: () => view.pause(), s: () => view.step(), e: () => view.edit(), t: () => view.take() } : {}) }
    : {};
  const call = moves[event.key] || letters[event.key.toLowerCase()];
  if (!call) return;
  event.preventDefault();
  call();
});

setUpOverview(draw);
setInterval(() => !document.hidden && draw(), 1000); // times go on by themselves
route();
