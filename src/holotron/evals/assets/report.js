"use strict";
// Everything shown comes from the data block and is set as text, never as markup: what pages said stays text.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const state = { task: "", sort: "task", down: false, episode: null, step: 0, timer: null, visible: [] };
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
  $("manifest").textContent = JSON.stringify(data.manifest, null, 2);
  $("notice").textContent = data.notice;
  $("notice").hidden = !data.notice;
  if (data.curve) {
    const [heading, image] = $("curve").children;
    heading.textContent = data.curve.title;
    image.src = data.curve.image;
    image.alt = data.curve.said;
    $("curve").hidden = false;
  }
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

function taskTable() {
  const rank = (task) => (task[state.sort] === null ? -1 : task[state.sort]);
  const rows = [...data.tasks].sort((a, b) => (rank(a) < rank(b) ? -1 : rank(a) > rank(b) ? 1 : 0) * (state.down ? -1 : 1));
  $("tasks").tBodies[0].replaceChildren(...rows.map((task) => {
    const bar = element("div", { class: "bar" });
    if (task.success !== null) {
      const fill = element("i"), whisker = element("u");
      fill.style.width = 100 * task.success + "%";
      whisker.style.left = 100 * task.low + "%";
      whisker.style.width = 100 * (task.high - task.low) + "%";
      bar.append(fill, whisker);
      bar.title = percent(task.low) + " to " + percent(task.high);
    }
    return element("tr", { class: task.task === state.task ? "chosen" : "", onclick: () => { state.task = state.task === task.task ? "" : task.task; taskTable(); list(); } },
      element("td", { class: "left", textContent: task.task, title: task.task }), element("td", { textContent: percent(task.success) }),
      element("td", {}, bar), element("td", { textContent: task.scored }), element("td", { textContent: task.mean_steps.toFixed(1) }),
      element("td", { textContent: task.environment_errors || "" }));
  }));
}

function list() {
  const words = $("search").value.toLowerCase(), outcome = $("outcome").value;
  const found = data.episodes.filter((episode) => (!state.task || episode.task === state.task) && (!outcome || episode.outcome === outcome)
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
    " " + [episode.id, "reward " + episode.reward, seconds(episode.seconds), episode.attempt ? "attempt " + (episode.attempt + 1) : "", episode.answer ? "answer: " + episode.answer : "", episode.error].filter(Boolean).join(" · "));
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
  history.replaceState(null, "", "#" + encodeURIComponent(episode.id) + "/" + state.step);
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
  const wanted = data.episodes.find((episode) => episode.steps && episode.id === decodeURIComponent(id || ""));
  if (wanted || state.visible.length) open(wanted || state.visible[0], wanted ? Number(step) || 0 : 0);
}
