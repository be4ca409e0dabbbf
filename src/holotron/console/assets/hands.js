// A person's mouse, fingers and keys on the live screen, as the actions an agent has. Each is sent when it is complete
// (a word, not a letter), one after the other, because each becomes a step.
import { $ } from "./dom.js";

const FAR = 6; // CSS pixels of this page: from there on a press is a drag
const DOUBLE = 260; // milliseconds within which a second click belongs to the first
const PAUSE = 600; // milliseconds without a key after which what was typed is sent
const MODIFIERS = ["Shift", "Control", "Alt", "Meta", "AltGraph", "CapsLock"];

export class Hands {
  #act; // sends an action
  #place = null; // someone else wants the next click: (x, y) => void
  #viewport = [1, 1];
  #from = null;
  #click = null;
  #typed = "";
  #typing = null;
  #wheel = null;
  on = false;

  constructor(act) {
    this.#act = act;
    const screen = $("screen");
    screen.addEventListener("pointerdown", (event) => this.#down(event));
    screen.addEventListener("pointerup", (event) => this.#up(event));
    screen.addEventListener("pointercancel", () => (this.#from = null));
    screen.addEventListener("wheel", (event) => this.#scrolled(event), { passive: false });
    screen.addEventListener("keydown", (event) => this.#key(event));
    screen.addEventListener("paste", (event) => this.#paste(event));
    screen.addEventListener("blur", () => this.flush());
    screen.addEventListener("contextmenu", (event) => this.on && event.preventDefault());
  }

  set(on, viewport) {
    this.#viewport = viewport || this.#viewport;
    if (on === this.on) return;
    this.on = on;
    this.#typed = "";
    const screen = $("screen");
    screen.classList.toggle("in-hand", on);
    if (on) {
      screen.tabIndex = 0;
      screen.setAttribute("role", "application");
      screen.setAttribute("aria-label", "The agent's screen. Clicks and keys go to the page. Shift and Escape leaves it.");
    } else {
      for (const name of ["tabindex", "role", "aria-label"]) screen.removeAttribute(name);
    }
  }

  pick(place) {
    this.#place = place;
    $("screen").classList.toggle("picking", place !== null);
  }

  // Whatever waits to be more is sent as it is.
  flush() {
    clearTimeout(this.#typing);
    const content = this.#typed;
    this.#typed = "";
    if (content) this.#act({ tool_name: "write", content, overwrite: false });
  }

  #point(event) {
    const box = $("shot").getBoundingClientRect();
    const part = (value, start, size) => Math.min(Math.max((value - start) / size, 0), 1);
    const [width, height] = this.#viewport;
    return [Math.round(part(event.clientX, box.left, box.width) * width * 10) / 10, Math.round(part(event.clientY, box.top, box.height) * height * 10) / 10];
  }

  #down(event) {
    if (!this.on && !this.#place) return;
    $("screen").focus({ preventScroll: true });
    event.preventDefault();
    $("screen").setPointerCapture(event.pointerId);
    this.#from = { x: event.clientX, y: event.clientY, point: this.#point(event), button: event.button };
  }

  #up(event) {
    const from = this.#from;
    this.#from = null;
    if (!from) return;
    const [x, y] = this.#point(event);
    if (this.#place) return this.#place(x, y);
    if (!this.on) return;
    this.flush();
    const [right, down] = [event.clientX - from.x, event.clientY - from.y];
    if (Math.hypot(right, down) > FAR) {
      if (event.pointerType === "touch") return this.#swiped(from.point, right, down);
      return this.#act({ tool_name: "drag", x1: from.point[0], y1: from.point[1], x2: x, y2: y });
    }
    if (from.button === 2) return this.#act({ tool_name: "right_click", x, y });
    if (from.button !== 0) return;
    if (this.#click) {
      clearTimeout(this.#click);
      this.#click = null;
      return this.#act({ tool_name: "double_click", x, y });
    }
    this.#click = setTimeout(() => {
      this.#click = null;
      this.#act({ tool_name: "click", x, y });
    }, DOUBLE);
  }

  #swiped([x, y], right, down) {
    const sideways = Math.abs(right) > Math.abs(down);
    const far = sideways ? right : down;
    const scale = this.#viewport[0] / $("shot").getBoundingClientRect().width;
    const direction = sideways ? (far > 0 ? "left" : "right") : far > 0 ? "up" : "down";
    this.#act({ tool_name: "scroll", direction, amount: Math.round(Math.abs(far) * scale), x, y });
  }

  #scrolled(event) {
    if (!this.on) return;
    event.preventDefault();
    const [x, y] = this.#point(event);
    const before = this.#wheel || { right: 0, down: 0, x, y };
    clearTimeout(before.timer);
    const now = { right: before.right + event.deltaX, down: before.down + event.deltaY, x: before.x, y: before.y };
    now.timer = setTimeout(() => {
      this.#wheel = null;
      const sideways = Math.abs(now.right) > Math.abs(now.down);
      const far = sideways ? now.right : now.down;
      if (!far) return;
      this.flush();
      const direction = sideways ? (far > 0 ? "right" : "left") : far > 0 ? "down" : "up";
      this.#act({ tool_name: "scroll", direction, amount: Math.round(Math.abs(far)), x: now.x, y: now.y });
    }, 150);
    this.#wheel = now;
  }

  #key(event) {
    if (!this.on || event.isComposing) return;
    if (event.key === "Escape" && event.shiftKey) {
      this.flush();
      $("take").focus();
      event.preventDefault();
      event.stopPropagation();
      return;
    }
    const control = event.ctrlKey || event.metaKey;
    if (MODIFIERS.includes(event.key) || (control && event.key.toLowerCase() === "v")) return; // a paste is an event of its own
    event.preventDefault();
    event.stopPropagation();
    if (event.key.length === 1 && !control && !event.altKey) {
      this.#typed += event.key;
      clearTimeout(this.#typing);
      this.#typing = setTimeout(() => this.flush(), PAUSE);
      return;
    }
    this.flush();
    const keys = [event.ctrlKey && "Control", event.metaKey && "Meta", event.altKey && "Alt", event.shiftKey && "Shift", event.key].filter(Boolean);
    this.#act({ tool_name: "press_keys", keys });
  }

  #paste(event) {
    if (!this.on) return;
    event.preventDefault();
    this.flush();
    const content = event.clipboardData.getData("text/plain");
    if (content) this.#act({ tool_name: "write", content, overwrite: false });
  }
}
