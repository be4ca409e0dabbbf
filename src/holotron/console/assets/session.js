// One session: its screen, what it thinks and does, its past, and a hand on it.
import { $, announce, count, element, frameUrl, keyed, money, one, seconds, setImage, setText, show } from "./dom.js";
import { Editor } from "./editor.js";
import { drawFilm } from "./film.js";
import { Hands } from "./hands.js";
import { kindOf } from "./kinds.js";
import { drawMarks } from "./marks.js";
import { drawStep, latest } from "./step.js";

const SOON = 1000; // milliseconds between two looks at the screen while a person has control

export class SessionView {
  #store;
  #at = null; // the step that is shown; null: the latest
  #editing = null; // what is being made in the editor
  #editedStep = null; // the step it is for; null: something that a person does who has control
  #sending = Promise.resolve();
  #waiting = 0;
  #heard = {};

  constructor(store) {
    this.#store = store;
    this.hands = new Hands((action) => this.#act(action));
    this.editor = new Editor((action, reason) => this.#edited(action, reason), (action) => {
      this.#editing = action;
      this.hands.pick(this.editor?.places ? (x, y) => this.editor.place(x, y) : null);
      this.draw();
    });
    const on = (id, call) => $(id).addEventListener("click", call);
    on("pause", () => this.pause());
    on("step", () => this.step());
    on("take", () => this.take());
    on("stop", () => this.#stop());
    on("hold-go", () => this.step());
    on("hold-edit", () => this.edit());
    on("hold-refuse", () => this.#say({ do: "refuse", step: this.session.held, reason: this.#emptied("hold-reason") }, "Refused."));
    on("allow", () => this.#answer(true, "once"));
    on("allow-site", () => this.#answer(true, "site"));
    on("refuse", () => this.#answer(false, "once"));
    on("previous", () => this.move(-1));
    on("next", () => this.move(1));
    on("to-live", () => this.move(Infinity));
    on("other-action", () => this.#open(null, "Do something else", "Do this", null, false));
    for (const button of document.querySelectorAll("[data-act]")) button.addEventListener("click", () => { this.hands.flush(); this.#act(JSON.parse(button.dataset.act)); });
    $("type-form").addEventListener("submit", (event) => {
      event.preventDefault();
      const content = this.#emptied("type-text");
      if (content) this.#act({ tool_name: "write", content, overwrite: false });
    });
    $("tell-form").addEventListener("submit", (event) => {
      event.preventDefault();
      const text = $("tell-text").value.trim();
      if (text) this.#say({ do: "instruct", text }, "It is told with its next turn.").then((done) => done && ($("tell-text").value = ""));
    });
    $("film").addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button) this.go(Number(button.parentNode.dataset.key));
    });
    $("film").addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      this.move(by);
      $("film").querySelector("[aria-current]")?.focus();
    });
    setInterval(() => this.#tick(), SOON / 2);
  }

  get session() {
    return this.#store.sessions.get(this.#store.chosen);
  }

  opened() {
    this.#at = null;
    this.#heard = {};
    this.editor.close();
    setText($("said"), "");
  }

  // ------------------------------------------------------------------------------------------------------- commands

  pause() {
    const paused = this.session.paused;
    return this.#say({ do: paused ? "resume" : "pause" }, paused ? "It goes on." : "It stops before its next action.");
  }

  step() {
    if (this.session.held !== null && this.session.held !== undefined) return this.#say({ do: "step", step: this.session.held }, "One step.");
    return undefined;
  }

  edit() {
    const step = this.session.held;
    if (step === null || step === undefined) return;
    this.#open(step, "Edit what it is about to do", "Do this instead", this.#store.cards.get(step)?.action, true);
  }

  async take() {
    if (this.session.taken) {
      this.hands.flush();
      await this.#sending;
      return this.#say({ do: "hand_back" }, "The agent has control again.");
    }
    this.#at = null;
    if (!(await this.#say({ do: "take_over" }, "You have control."))) return undefined;
    this.hands.set(true, this.session.viewport);
    $("screen").focus({ preventScroll: true });
    document.querySelector(".window").scrollIntoView({ block: "nearest" });
    return undefined;
  }

  #stop() {
    const button = $("stop");
    if (!button.dataset.sure) {
      button.dataset.sure = "1";
      setText(button, "Stop for good?");
      setTimeout(() => { delete button.dataset.sure; setText(button, "Stop"); }, 4000);
      return;
    }
    delete button.dataset.sure;
    setText(button, "Stop");
    this.#say({ do: "stop" }, "It is being stopped.");
  }

  #answer(allow, scope) {
    const question = this.session.question;
    if (question?.number) this.#say({ do: "answer", question: question.number, allow, scope, reason: this.#emptied("question-reason") }, allow ? "Allowed." : "Refused.");
  }

  #open(step, title, button, action, why) {
    this.#editedStep = step;
    if (step !== null) this.#at = null;
    this.editor.open(title, button, action, why);
  }

  async #edited(action, reason) {
    const body = this.#editedStep === null ? { do: "act", action } : { do: "edit", step: this.#editedStep, action, reason };
    if (await this.#say(body, this.#editedStep === null ? "" : "Done your way.")) this.editor.close();
  }

  // A person's actions go out one after the other.
  #act(action) {
    this.#waiting++;
    this.#sending = this.#sending.then(() => this.#say({ do: "act", action }, "")).finally(() => this.#waiting--);
    this.draw();
  }

  async #say(body, done) {
    try {
      await this.#store.command(this.#store.chosen, body);
      setText($("said"), done);
      $("said").classList.remove("wrong");
      return true;
    } catch (problem) {
      setText($("said"), problem instanceof TypeError ? "The connection is lost; that was not done." : `Not done: ${problem.message}.`);
      $("said").classList.add("wrong");
      return false;
    }
  }

  #emptied(id) {
    const text = $(id).value;
    $(id).value = "";
    return text;
  }

  #tick() {
    const session = this.session;
    if (!session || $("session").hidden) return;
    if (session.state !== "ended") setText($("state-time"), session.since ? seconds(Math.max(0, Date.now() / 1000 - session.since)) : "");
    // What the page does by itself, a person who has control wants to see; nobody else is shown more than the agent is.
    if (session.taken && session.state === "person" && !document.hidden && !this.#waiting && Date.now() - (this.looked || 0) >= SOON) {
      this.looked = Date.now();
      this.#store.command(this.#store.chosen, { do: "look" }).catch(() => {});
    }
  }

  // -------------------------------------------------------------------------------------------------------- timeline

  #indices() {
    return [...this.#store.cards.keys()].sort((a, b) => a - b);
  }

  move(by) {
    const all = this.#indices();
    if (!all.length) return;
    const here = this.#at === null ? all.length - 1 : all.indexOf(this.#at);
    const place = Math.min(Math.max(here + by, 0), all.length - 1);
    this.go(all[place]);
  }

  go(index) {
    const all = this.#indices();
    this.#at = index === all[all.length - 1] && this.session.state !== "ended" ? null : index;
    this.draw();
    const card = this.#store.cards.get(index);
    if (card) announce(`Step ${index + 1}: ${card.action_said || "not yet decided"}`);
  }

  // --------------------------------------------------------------------------------------------------------- drawing

  draw() {
    const session = this.session;
    if (!session) return;
    const all = this.#indices();
    const last = all.length ? all[all.length - 1] : null;
    // When it is over, what is shown is how it looked at the end, until somebody looks back.
    const index = this.#at ?? last;
    const card = index === null ? null : this.#store.cards.get(index);
    const atEnd = this.#at === null && session.state === "ended";
    setText($("goal"), session.goal || session.id);
    const facts = [session.id, session.attempt ? `attempt ${session.attempt + 1}` : "", session.assisted ? "a person had a hand in it" : ""];
    setText($("facts"), facts.filter(Boolean).join(" · "));
    this.#drawScreen(session, card, atEnd);
    this.#drawState(session);
    this.#drawAsking(session);
    drawStep(session, this.#at === null ? latest(this.#store.cards, all) : card, atEnd);
    drawFilm(this.#store.cards, all, index);
    show($("to-live"), this.#at !== null);
    setText($("to-live"), session.state === "ended" ? "The end" : "Back to now");
    this.#drawCost(session);
    this.#announce(session, last);
  }

  #drawScreen(session, card, atEnd) {
    const live = this.#at === null;
    const shown = atEnd || !card ? session : live ? { ...card, frame: session.frame || card.frame } : card;
    setImage($("shot"), frameUrl(shown.frame));
    show($("shot"), Boolean(shown.frame));
    show($("no-shot"), !shown.frame);
    $("shot").alt = `Screen${card && !atEnd ? ` at step ${card.index + 1}` : " at the end"}: ${shown.title || shown.url || "no title"}`;
    setText($("place-title"), shown.title || "");
    setText($("place-url"), shown.url || "");
    const viewport = shown.viewport || session.viewport || card?.viewport;
    const action = this.#editing || (atEnd || session.taken && live ? null : card?.action);
    // Beside what is about to happen, faintly: what the agent had wanted, or what was done last.
    const before = live && !atEnd && !session.taken && card?.state === "seen" ? this.#store.cards.get(card.index - 1)?.action : null;
    drawMarks($("marks"), action, viewport, this.#editing ? card?.action : card?.proposed || before);
    const flag = session.taken && live ? "You have control" : session.state === "held" && live ? "Waits for you" : !live && session.state !== "ended" ? "Looking back" : "";
    setText($("flag"), flag);
    show($("flag"), Boolean(flag));
    $("flag").dataset.kind = session.taken ? "hand" : session.state === "held" && live ? "held" : "";
    this.hands.set(Boolean(session.taken) && live && session.state !== "ended", viewport);
    show($("hands"), Boolean(session.taken) && session.state !== "ended");
  }

  #drawState(session) {
    const { kind, word } = kindOf(session);
    $("state").dataset.kind = kind;
    const waits = this.#waiting ? `, ${one(this.#waiting, "action")} on the way` : "";
    setText($("state-text"), session.stopping && session.state !== "ended" ? "is being stopped" : session.taken && session.state !== "person" && session.state !== "ended" ? "is yours in a moment" : word + waits);
    if (session.state === "ended") setText($("state-time"), seconds(session.seconds));
    const over = session.state === "ended" || !this.#store.run.live;
    show($("controls"), !over);
    show($("tell"), !over);
    if (over) this.editor.close();
    setText($("pause"), session.paused ? "Resume" : "Pause");
    $("pause").setAttribute("aria-pressed", String(Boolean(session.paused)));
    $("step").disabled = session.state !== "held";
    setText($("take"), session.taken ? "Hand back" : "Take over");
    $("take").classList.toggle("primary", Boolean(session.taken));
  }

  #drawAsking(session) {
    const within = ["question", "hold", "editor"].find((id) => $(id).contains(document.activeElement));
    const question = session.state === "ended" ? null : session.question;
    const fresh = question && $("question").hidden;
    show($("question"), Boolean(question));
    if (fresh && matchMedia("(max-width: 60rem)").matches) $("question").scrollIntoView({ block: "center" });
    if (question) {
      setText($("question-summary"), question.summary);
      keyed($("question-lines"), question.lines.map(([label]) => label), (label) => element("div", {}, element("dt", { textContent: label }), element("dd")),
        (node, label) => setText(node.querySelector("dd"), question.lines.find(([other]) => other === label)[1]));
    }
    const held = session.state === "held" && !this.editor.isOpen;
    const card = this.#store.cards.get(session.held);
    show($("hold"), held && Boolean(card));
    show($("action"), !held);
    if (held && card) setText($("hold-action"), card.action_said || `an unusable reply: ${card.error}`);
    if (this.editor.isOpen && this.#editedStep !== null && session.held !== this.#editedStep) this.editor.close();
    if (this.editor.isOpen && this.#editedStep === null && !session.taken) this.editor.close();
    // What had the focus is gone: to where Enter does nothing by accident.
    if (within && $(within).hidden) $(within === "editor" && !$("hold").hidden ? "hold-edit" : "main").focus({ preventScroll: true });
  }

  #drawCost(session) {
    const [prompt = 0, cached = 0, generated = 0] = session.tokens || [];
    const rows = [
      ["Steps", String(session.steps ?? 0)],
      ["Time", session.state === "ended" ? seconds(session.seconds) : session.started ? seconds(Date.now() / 1000 - session.started) : ""],
      ["Tokens read", prompt ? `${count(prompt)}, ${count(cached)} of them cached` : ""],
      ["Tokens written", generated ? count(generated) : ""],
      ["Cost", money(session.money, this.#store.run.currency)],
    ].filter(([, value]) => value);
    keyed($("cost"), rows.map(([name]) => name), (name) => element("div", {}, element("dt", { textContent: name }), element("dd")),
      (node, name) => setText(node.querySelector("dd"), rows.find(([other]) => other === name)[1]));
  }

  // What a screen reader says by itself: questions at once, steps and states in passing.
  #announce(session, last) {
    const question = session.question ? session.question.summary : "";
    if (question && question !== this.#heard.question) announce(`The agent asks: ${question}`, true);
    const word = kindOf(session).word;
    const card = last === null ? null : this.#store.cards.get(last);
    const news = session.state === "held" && card ? `It waits for you before step ${last + 1}: ${card.action_said}` : session.state === "ended" ? `It has ended: ${word}` : card && card.state === "thought" ? `Step ${last + 1}: ${card.action_said}` : "";
    if (news && news !== this.#heard.news) announce(news);
    this.#heard = { question, news: news || this.#heard.news };
  }
}
