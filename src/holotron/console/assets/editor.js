// A form for any action: to change what the agent is about to do, or to do something that a mouse cannot.
import { $, element, show } from "./dom.js";

const PLACE = [["x", "number"], ["y", "number"]];
const ACTIONS = {
  click: PLACE, double_click: PLACE, right_click: PLACE, hover: PLACE,
  write: [["content", "text"], ["x", "number?"], ["y", "number?"], ["overwrite", "yes"], ["press_enter", "no"]],
  press_keys: [["keys", "keys"]],
  scroll: [["direction", ["down", "up", "left", "right"]], ["amount", "number?"], ["x", "number?"], ["y", "number?"]],
  drag: [["x1", "number"], ["y1", "number"], ["x2", "number"], ["y2", "number"]],
  goto: [["url", "text"]], go_back: [], refresh: [], wait: [["seconds", "number"]],
  new_tab: [["url", "text?"]], switch_tab: [["index", "number"]], close_tab: [], restart: [], answer: [["content", "text"]],
};
const LABELS = {
  content: "Text", overwrite: "Replace what is there", press_enter: "Then press Enter", keys: "Keys, with + between them", amount: "Pixels (empty: most of a page)",
  url: "Address", seconds: "Seconds", index: "Tab, from 0", direction: "Direction",
};

export class Editor {
  #done;
  #changed;
  #values = {};
  #dragEnd = false;

  // done(action, reason) when it is to be done; changed(action or null) while it is being made.
  constructor(done, changed) {
    this.#done = done;
    this.#changed = changed;
    for (const name of Object.keys(ACTIONS)) $("editor-kind").append(element("option", { value: name, textContent: name.replace("_", " ") }));
    $("editor-kind").addEventListener("change", () => this.#draw());
    $("editor-cancel").addEventListener("click", () => this.close());
    $("editor-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#done(this.action(), $("editor-reason").value.trim());
    });
    $("editor-fields").addEventListener("input", () => this.#changed(this.action()));
  }

  get isOpen() {
    return !$("editor").hidden;
  }

  open(title, button, action, why) {
    $("editor-title").textContent = title;
    $("editor-do").textContent = button;
    show($("editor-why"), why);
    $("editor-reason").value = "";
    this.#values = { ...(action || { tool_name: "click" }) };
    $("editor-kind").value = this.#values.tool_name;
    this.#dragEnd = false;
    show($("editor"), true);
    this.#draw();
    $("editor-kind").focus();
  }

  close() {
    if (!this.isOpen) return;
    show($("editor"), false);
    this.#changed(null);
  }

  // The screen was clicked: that is the place. Of a drag the first click is where it begins.
  place(x, y) {
    const names = this.#values.tool_name === "drag" ? (this.#dragEnd ? ["x2", "y2"] : ["x1", "y1"]) : ["x", "y"];
    this.#dragEnd = !this.#dragEnd;
    for (const [name, value] of [[names[0], x], [names[1], y]]) {
      const field = $(`editor-${name}`);
      if (field) field.value = value;
    }
    this.#changed(this.action());
  }

  get places() {
    return this.isOpen && ACTIONS[$("editor-kind").value].some(([name]) => name === "x" || name === "x1");
  }

  action() {
    const action = { tool_name: $("editor-kind").value };
    for (const [name, kind] of ACTIONS[action.tool_name]) {
      const field = $(`editor-${name}`);
      if (kind === "yes" || kind === "no") action[name] = field.checked;
      else if (kind === "keys") action[name] = field.value === "+" ? ["+"] : field.value.split("+").map((key) => key.trim()).filter(Boolean);
      else if (Array.isArray(kind) || kind.startsWith("text")) action[name] = field.value;
      else if (field.value !== "") action[name] = Number(field.value);
    }
    return action;
  }

  #draw() {
    this.#values.tool_name = $("editor-kind").value;
    const rows = ACTIONS[this.#values.tool_name].map(([name, kind]) => {
      const value = this.#values[name];
      const label = LABELS[name] || name;
      if (kind === "yes" || kind === "no") {
        const box = element("input", { type: "checkbox", id: `editor-${name}`, checked: value ?? kind === "yes" });
        return element("label", { class: "check" }, box, ` ${label}`);
      }
      const field = Array.isArray(kind)
        ? element("select", { id: `editor-${name}` }, ...kind.map((option) => element("option", { value: option, textContent: option, selected: option === value })))
        : element("input", { id: `editor-${name}`, type: kind.startsWith("number") ? "number" : "text", step: "any", required: !kind.endsWith("?") && kind !== "text", autocomplete: "off", value: kind === "keys" ? (value || []).join("+") : value ?? (name === "seconds" ? 1 : "") });
      return element("div", { class: kind.startsWith?.("number") ? "narrow" : "" }, element("label", { for: `editor-${name}`, textContent: label }), field);
    });
    $("editor-fields").replaceChildren(...rows);
    show($("editor-hint"), this.places);
    this.#changed(this.action());
  }
}
