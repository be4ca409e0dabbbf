// A clock for the page that stands still while the agent thinks. Date, timers and animation frames follow it; only
// __clock.advance() moves it, and runs in no time what the page would have done meanwhile. So an episode depends on the
// seed and the actions alone, never on how fast the machine or the policy is.
(() => {
  if (window.top !== window) return;
  const START = Date.UTC(2024, 0, 1, 12);
  const FRAME = 50;  // milliseconds between animation frames; nobody watches them, and drawing them costs time
  const MOST_CALLBACKS = 10000;  // in one advance: a page whose timers set timers without delay would never end

  const realTimeout = window.setTimeout.bind(window);
  let now = 0;
  let last = 0;
  const timers = new Map();  // id -> {id, at, callback, every, soon}; soon: the page will change without being asked

  const add = (callback, at, every, soon) => {
    timers.set(++last, {id: last, at, callback, every, soon});
    return last;
  };
  const timer = (repeats) => (callback, delay, ...rest) => {
    const run = typeof callback === 'function' ? () => callback(...rest) : () => (0, eval)(String(callback));
    const wait = Math.max(Number(delay) || 0, repeats ? 4 : 0);
    return add(run, now + wait, repeats ? wait : 0, !repeats && wait <= __clock.SOON);
  };
  const clear = (id) => { timers.delete(Number(id)); };

  const next = (end) => {
    let first = null;
    for (const timer of timers.values())
      if (timer.at <= end && (first === null || timer.at < first.at)) first = timer;  // a Map keeps the order of setting
    return first;
  };

  window.__clock = {
    SOON: 800,
    sleep: (milliseconds) => new Promise((done) => realTimeout(done, milliseconds)),  // real time, for what must load
    // Let `least` milliseconds pass, and up to `most` while the page is about to change by itself.
    advance(least, most) {
      const start = now;
      for (let n = 0; n < MOST_CALLBACKS; n++) {
        const busy = [...timers.values()].some((timer) => timer.soon);
        const due = next(start + (busy ? most : least));
        if (!due) break;
        now = Math.max(now, due.at);
        if (due.every) due.at = now + due.every;
        else timers.delete(due.id);
        try { due.callback(); } catch (error) { reportError(error); }
      }
      now = Math.max(now, start + least);
    },
    // Back to the start. First what the page has begun is brought to its end; false when it never comes to an end.
    restart() {
      this.advance(0, 5000);
      if ([...timers.values()].some((timer) => timer.soon)) return false;
      for (const timer of timers.values()) timer.at -= now;
      now = 0;
      return true;
    },
  };

  // Dragging takes time: a frame per move, so that pages that watch the speed of the hand see one.
  window.addEventListener('mousemove', (event) => {
    if (event.isTrusted && event.buttons) __clock.advance(FRAME, FRAME);
  }, true);

  window.setTimeout = timer(false);
  window.setInterval = timer(true);
  window.clearTimeout = window.clearInterval = window.cancelAnimationFrame = clear;
  window.requestAnimationFrame = (callback) =>
    add(() => callback(now), (Math.floor(now / FRAME) + 1) * FRAME, 0, true);
  performance.now = () => now;
  window.Date = new Proxy(Date, {
    construct: (target, given, maker) => Reflect.construct(target, given.length ? given : [START + now], maker),
    apply: (target) => new target(START + now).toString(),
    get: (target, name) => (name === 'now' ? () => Math.floor(START + now) : Reflect.get(target, name)),
  });
})();
