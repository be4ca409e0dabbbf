"use strict";
// Everything shown comes from the data block and is set as text, never as markup: what pages said stays text.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const state = { run: -1, task: "", sort: "task", down: false, episode: null, step: 0, timer: null, visible: [] };
const LIST_LIMIT = 400;

function element(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(options)) {
    if (key === "class") node.className = value;
    else if (key === "onclick") node.addEventListener("click", value);
    else node[key] = value;
  }
  node.append(...children.filter((child) => child !== null && child !== ""));
  return node;
}
const percent = (rate) => (rate === null ? "–" : (100 * rate).toFixed(1) + " %");
const seconds = (value) => (value >= 60 ? Math.floor(value / 60) + " min " + Math.round(value % 60) + " s" : value.toFixed(value < 10 ? 2 : 1) + " s");

// ------------------------------------------------------------------------------------------------------------ overview

function overview() {
  $("title").textContent = data.title;
  $("subtitle").textContent = data.subtitle;
  const only = (object) => (data.runs.length === 1 ? Object.values(object)[0] : object);
  $("manifest").textContent = JSON.stringify(only(data.manifests), null, 2);
  $("protocol").textContent = JSON.stringify(only(data.protocols), null, 2);
  $("notice").textContent = data.notice;
  $("notice").hidden = !data.notice;
  for (const plot of data.plots) {
    $("plots").append(element("div", { class: "panel" }, element("h2", { textContent: plot.title }), element("img", { src: plot.image, alt: plot.said })));
  }
  for (const task of data.tasks) task.errors = task.environment_errors + task.policy_errors;
  $("runs-panel").hidden = data.runs.length < 2;
  runTable();
  for (const [value, label] of data.figures) {
    $("figures").append(element("div", { class: "figure" }, element("b", { textContent: value }), element("span", { textContent: label })));
  }
  for (const outcome of data.outcomes) $("outcome").append(element("option", { value: outcome, textContent: outcome.replace("_", " ") }));
  for (const head of document.querySelectorAll("th[data-key]")) {
    head.addEventListener("click", () => {
      state.down = state.sort === head.dataset.key ? !state.down : head.dataset.key !== "task";
      state.sort = head.dataset.key;
      taskTable();
    });
  }
  taskTable();
}

function rateBar(rated) {
  const bar = element("div", { class: "bar" });
  if (rated.success === null) return bar;
  const fill = element("i"), whisker = element("u");
  fill.style.width = 100 * rated.success + "%";
  whisker.style.left = 100 * rated.low + "%";
  whisker.style.width = 100 * (rated.high - rated.low) + "%";
  bar.append(fill, whisker);
  bar.title = percent(rated.low) + " to " + percent(rated.high);
  return bar;
}

function runTable() {
  $("runs").tBodies[0].replaceChildren(...data.runs.map((run, index) => {
    const spent = [run.seconds === null ? "" : seconds(run.seconds), run.tokens === null ? "" : Math.round(run.tokens) + " tokens", run.money === null ? "" : run.money.toFixed(4) + " " + run.currency];
    return element("tr", { class: index === state.run ? "chosen" : "", onclick: () => { state.run = state.run === index ? -1 : index; state.task = ""; runTable(); taskTable(); list(); } },
      element("td", { class: "left", textContent: run.name, title: run.suite }), element("td", { class: "left", textContent: run.policy, title: run.policy }),
      element("td", { textContent: percent(run.success) }), element("td", {}, rateBar(run)), element("td", { textContent: run.scored }),
      element("td", { textContent: run.errors || "" }), element("td", { textContent: run.mean_steps.toFixed(1) }),
      element("td", { textContent: spent.filter(Boolean).join(" · ") || "–" }));
  }));
}

// With several runs a task is known by its run too.
const several = () => data.runs.length > 1;
const taskKey = (item) => item.run + "/" + item.task;
const here = (item) => state.run < 0 || item.run === state.run;
const keyOf = (episode) => (several() ? episode.run + ":" : "") + episode.id;

function taskTable() {
  const rank = (task) => (task[state.sort] === null ? -1 : task[state.sort]);
  const rows = data.tasks.filter(here).sort((a, b) => (rank(a) < rank(b) ? -1 : rank(a) > rank(b) ? 1 : 0) * (state.down ? -1 : 1));
  $("tasks").tBodies[0].replaceChildren(...rows.map((task) => {
    const name = (several() ? data.runs[task.run].name + " · " : "") + task.task;
    return element("tr", { class: taskKey(task) === state.task ? "chosen" : "", onclick: () => { state.task = state.task === taskKey(task) ? "" : taskKey(task); taskTable(); list(); } },
      element("td", { class: "left", textContent: name, title: name }), element("td", { textContent: percent(task.success) }),
      element("td", {}, rateBar(task)), element("td", { textContent: task.scored }), element("td", { textContent: task.mean_steps.toFixed(1) }),
      element("td", { textContent: task.errors || "" }));
  }));
}

function list() {
  const words = $("search").value.toLowerCase(), outcome = $("outcome").value;
  const found = data.episodes.filter((episode) => here(episode) && (!state.task || taskKey(episode) === state.task) && (!outcome || episode.outcome === outcome)
    && (!words || (episode.id + " " + episode.goal).toLowerCase().includes(words)));
  state.visible = found.slice(0, LIST_LIMIT).filter((episode) => episode.steps);
  $("episode-count").textContent = found.length + " of " + data.episodes.length + (found.length > LIST_LIMIT ? ", first " + LIST_LIMIT + " listed" : "");
  $("episodes").replaceChildren(...found.slice(0, LIST_LIMIT).map((episode) => {
    const item = element("li", { class: (episode.steps ? "" : "flat ") + (episode === state.episode ? "chosen" : ""), title: episode.steps ? "" : "Not embedded in this page" },
      element("span", { class: "tag " + episode.outcome, textContent: episode.outcome.replace("_", " ") }),
      element("span", { class: "what", textContent: episode.task + " · " + episode.goal }),
      element("small", { textContent: episode.count + " steps · seed " + episode.seed }));
    if (episode.steps) item.addEventListener("click", () => open(episode, 0));
    return item;
  }));
}

// -------------------------------------------------------------------------------------------------------------- player

function open(episode, step) {
  stop();
  state.episode = episode;
  state.step = Math.min(Math.max(step, 0), frames(episode) - 1);
  $("player").hidden = false;
  $("slider").max = frames(episode) - 1;
  list();
  document.querySelector("#episodes .chosen")?.scrollIntoView({ block: "nearest" });
  show();
}
const frames = (episode) => episode.steps.length + (episode.final === null ? 0 : 1); // the last frame is what the end looked like

function show() {
  const episode = state.episode, step = episode.steps[state.step];
  $("goal").textContent = episode.goal || episode.id;
  $("facts").replaceChildren(element("span", { class: "tag " + episode.outcome, textContent: episode.outcome.replace("_", " ") }),
    " " + [several() ? data.runs[episode.run].name : "", episode.id, episode.reward === null ? "no verdict" : "reward " + episode.reward, seconds(episode.seconds), episode.attempt ? "attempt " + (episode.attempt + 1) : "", episode.answer ? "answer: " + episode.answer : "", episode.error].filter(Boolean).join(" · "));
  const view = step ? step.view : episode.final;
  const source = view.image === null ? null : data.images[view.image];
  $("shot").hidden = source === null;
  $("no-shot").hidden = source !== null;
  $("no-shot").textContent = "This screenshot is not embedded (size limit of the page).";
  if (source !== null) $("shot").src = source; else $("shot").removeAttribute("src");
  $("shot").alt = "Screenshot at step " + (state.step + 1);
  marks(step, view);
  $("slider").value = state.step;
  $("position").textContent = step ? "step " + (state.step + 1) + " / " + episode.steps.length : "the end";
  details(step, view);
  history.replaceState(null, "", "#" + encodeURIComponent(keyOf(episode)) + "/" + state.step);
}

function shape(tag, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text) node.textContent = text;
  $("marks").append(node);
}

function marks(step, view) {
  const [width, height] = view.viewport, unit = Math.max(width, height) / 100;
  $("marks").setAttribute("viewBox", "0 0 " + width + " " + height);
  $("marks").replaceChildren();
  if (!step) return;
  if (step.target) shape("polygon", { class: "target", points: step.target.map((corner) => corner.join(",")).join(" "), "stroke-width": 0.3 * unit });
  const action = step.action || {};
  const label = (x, y, text) => shape("text", { x: Math.min(x + 2.4 * unit, width - text.length * 1.1 * unit), y: Math.max(y - 1.6 * unit, 2.4 * unit), "font-size": 2.1 * unit, "stroke-width": 0.5 * unit }, text);
  const target = (x, y) => {
    shape("circle", { class: "halo", cx: x, cy: y, r: 1.8 * unit, "stroke-width": 0.9 * unit });
    shape("circle", { class: "ring", cx: x, cy: y, r: 1.8 * unit, "stroke-width": 0.45 * unit });
    shape("circle", { class: "ring pulse", cx: x, cy: y, r: 2.6 * unit, "stroke-width": 0.3 * unit });
    shape("circle", { class: "dot", cx: x, cy: y, r: 0.35 * unit });
  };
  if (action.x1 !== undefined) {
    shape("line", { class: "halo path", x1: action.x1, y1: action.y1, x2: action.x2, y2: action.y2, "stroke-width": 0.9 * unit });
    shape("line", { class: "path", x1: action.x1, y1: action.y1, x2: action.x2, y2: action.y2, "stroke-width": 0.45 * unit });
    shape("circle", { class: "dot", cx: action.x1, cy: action.y1, r: 0.7 * unit });
    target(action.x2, action.y2);
  } else if (action.x !== undefined) {
    target(action.x, action.y);
  }
  const x = action.x ?? width / 2, y = action.y ?? height / 2;
  if (action.tool_name === "scroll") {
    const [dx, dy] = { up: [0, -1], down: [0, 1], left: [-1, 0], right: [1, 0] }[action.direction], far = 9 * unit;
    const tip = [x + dx * far, y + dy * far], wing = 2 * unit;
    shape("path", { class: "path", "stroke-width": 0.7 * unit, d: "M" + x + " " + y + "L" + tip + "M" + [tip[0] - (dx + dy) * wing, tip[1] - (dy + dx) * wing] + "L" + tip + "L" + [tip[0] - (dx - dy) * wing, tip[1] - (dy - dx) * wing] });
  }
  if (action.content && action.tool_name === "write") label(x, y, "“" + action.content.slice(0, 40) + "”");
  if (action.keys) label(x, y, action.keys.join(" + "));
}

function details(step, view) {
  const box = $("details");
  box.replaceChildren();
  const part = (title, text, kind = "p", style = "") => {
    if (text) box.append(element("h3", { textContent: title }), element(kind, { textContent: text, class: style }));
  };
  if (!step) {
    part("After the last action", view.title || view.url || "The final screen.");
    return;
  }
  part("Action", step.said, "p", "action");
  part("Refused", step.error, "p", "error");
  part("The agent had proposed", step.proposed);
  part("Before this, the user said", step.instruction);
  part("Thought", step.thought);
  part("Note", step.note);
  part("Page", [view.title, view.url].filter(Boolean).join("\n"));
  part("The environment says", view.note);
  part("Timing", "policy " + seconds(step.policy_seconds) + " · environment " + seconds(step.environment_seconds)
    + (step.reward ? " · reward " + step.reward : ""));
  if (step.prompt_tokens || step.generated_tokens) {
    part("Cost", step.prompt_tokens + " prompt tokens (" + step.cached_tokens + " cached) · " + step.generated_tokens + " generated · " + step.images_sent + " images sent");
  }
  for (const [title, text] of [["Reasoning", step.reasoning], ["Raw reply", step.text]]) {
    if (text) box.append(element("details", { open: title === "Raw reply" && text.length < 600 }, element("summary", { textContent: title }), element("pre", { textContent: text })));
  }
}

function move(by) {
  if (!state.episode) return false;
  const step = Math.min(Math.max(state.step + by, 0), frames(state.episode) - 1);
  if (step === state.step) return false;
  state.step = step;
  show();
  return true;
}
function stop() {
  clearInterval(state.timer);
  state.timer = null;
  $("play").textContent = "Play";
}
function play() {
  if (state.timer) return stop();
  if (state.step === frames(state.episode) - 1) move(-Infinity);
  $("play").textContent = "Pause";
  state.timer = setInterval(() => { if (!move(1)) stop(); }, 900);
}
function neighbour(by) {
  const index = state.visible.indexOf(state.episode) + by;
  if (state.visible[index]) open(state.visible[index], 0);
}
function theme(name) {
  document.documentElement.dataset.theme = name;
}

// ------------------------------------------------------------------------------------------------------------- wiring

theme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
$("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
for (const [id, by] of [["first", -Infinity], ["previous", -1], ["next", 1], ["last", Infinity]]) $(id).addEventListener("click", () => { stop(); move(by); });
$("play").addEventListener("click", play);
$("slider").addEventListener("input", () => { stop(); move(Number($("slider").value) - state.step); });
$("search").addEventListener("input", list);
$("outcome").addEventListener("change", list);
document.addEventListener("keydown", (event) => {
  if (event.target.matches("input[type=search], select") || event.ctrlKey || event.metaKey || event.altKey) return;
  const keys = { ArrowLeft: () => { stop(); move(-1); }, ArrowRight: () => { stop(); move(1); }, ArrowUp: () => neighbour(-1), ArrowDown: () => neighbour(1), t: () => $("theme").click(), " ": () => state.episode && play() };
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});
overview();
list();
{
  const [id, step] = location.hash.slice(1).split(/\/(?=[^/]*$)/);
  const wanted = data.episodes.find((episode) => episode.steps && keyOf(episode) === decodeURIComponent(id || ""));
  if (wanted || state.visible.length) open(wanted || state.visible[0], wanted ? Number(step) || 0 : 0);
}
