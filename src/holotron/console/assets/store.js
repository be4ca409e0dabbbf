// What the page knows, and how it is kept up to date: a snapshot, then a stream of changes from that version on. The
// browser reconnects the stream and says where it was; a server that was started anew answers "reset".
export class Store extends EventTarget {
  run = {};
  sessions = new Map();
  chosen = null; // the session whose steps are followed
  cards = new Map(); // its steps by number
  #position = "";
  #source = null;
  #loading = 0;

  async open(chosen) {
    const mine = ++this.#loading;
    this.#close();
    this.chosen = chosen;
    this.cards = new Map();
    try {
      const state = await this.#fetched("state");
      const session = chosen === null ? null : await this.#fetched(`session?id=${encodeURIComponent(chosen)}`);
      if (mine !== this.#loading) return;
      this.sessions.clear();
      this.#take(state.changes);
      if (session) for (const card of session.cards) this.cards.set(card.index, card);
      this.#position = state.position; // the older of the two: what the other has beyond it comes again, and nothing is missed
      this.#tell("changes");
      this.#connect();
    } catch (problem) {
      if (mine !== this.#loading) return;
      if (problem.missing) this.#tell("missing");
      else {
        this.#tell("lost");
        setTimeout(() => mine === this.#loading && this.open(this.chosen), 1500);
      }
    }
  }

  // Pages in the background hold no connection: a browser has six for a site, and nobody looks.
  sleep() {
    this.#loading++;
    this.#close();
  }

  wake() {
    if (!this.#source) this.#connect();
  }

  async pulse() {
    return this.#fetched("pulse");
  }

  // Done, or an Error that says why not.
  async command(session, body) {
    const reply = await fetch("command", { method: "POST", body: JSON.stringify({ session, ...body }) });
    if (reply.ok) return;
    let why = `the server answered ${reply.status}`;
    try { why = (await reply.json()).error || why; } catch { /* not from us */ }
    throw new Error(why);
  }

  #connect() {
    if (!this.#position) return;
    const session = this.chosen === null ? "" : `&session=${encodeURIComponent(this.chosen)}`;
    const source = (this.#source = new EventSource(`events?since=${this.#position}${session}`));
    source.addEventListener("open", () => this.#tell("connected"));
    source.addEventListener("changes", (event) => {
      this.#position = event.lastEventId;
      this.#take(JSON.parse(event.data));
      this.#tell("changes");
    });
    source.addEventListener("reset", () => this.open(this.chosen));
    source.addEventListener("error", () => {
      this.#tell("lost");
      if (source.readyState === EventSource.CLOSED && source === this.#source) {
        this.#close(); // refused; the browser has given up, we have not
        const mine = this.#loading;
        setTimeout(() => mine === this.#loading && this.open(this.chosen), 3000);
      }
    });
  }

  #close() {
    this.#source?.close();
    this.#source = null;
  }

  #take(changes) {
    if (changes.run) this.run = changes.run;
    for (const session of changes.sessions) {
      const before = this.sessions.get(session.id);
      if (session.id === this.chosen && before && session.attempt > before.attempt) this.cards.clear(); // tried again
      this.sessions.set(session.id, session);
    }
    for (const card of changes.cards) if (card.session === this.chosen) this.cards.set(card.index, card);
  }

  #tell(what) {
    this.dispatchEvent(new Event(what));
  }

  async #fetched(path) {
    const reply = await fetch(path, { cache: "no-store" });
    if (!reply.ok) throw Object.assign(new Error(`${path}: ${reply.status}`), { missing: reply.status === 404 && path !== "state" });
    return reply.json();
  }
}
