// Runs in every MiniWoB++ page before the page's own scripts. Three jobs: make the page's start independent of chance
// and of the date, know when the page has nothing more to do soon, and start and read episodes.
(() => {
  if (window.top !== window) return;

  // Chance before the first Math.seedrandom(): some pages draw while they load. Park-Miller, always the same start.
  let state = 1;
  Math.random = () => (state = (state * 48271) % 2147483647) / 2147483647;

  // Short timers the page has set and that have not fired: the page is about to change by itself.
  const SOON = 800;
  const pending = new Set();
  const setTimer = window.setTimeout.bind(window);
  const clearTimer = window.clearTimeout.bind(window);
  window.setTimeout = (callback, delay = 0, ...rest) => {
    if (typeof callback !== 'function' || !(delay <= SOON)) return setTimer(callback, delay, ...rest);
    const id = setTimer(() => { pending.delete(id); callback(...rest); }, delay);
    pending.add(id);
    return id;
  };
  window.clearTimeout = (id) => { pending.delete(id); clearTimer(id); };

  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimer(done, 0)));

  const settled = async (limit) => {
    const end = performance.now() + limit;
    await frame();
    while (pending.size && performance.now() < end) await new Promise((done) => setTimer(done, 10));
  };

  const read = () => JSON.stringify({
    done: WOB_DONE_GLOBAL, reward: WOB_REWARD_GLOBAL, raw: WOB_RAW_REWARD_GLOBAL,
    reason: WOB_REWARD_REASON ?? null, x: window.scrollX, y: window.scrollY,
  });

  window.__holotron = {
    async start(seed, limit, mode) {
      for (const id of pending) clearTimer(id);  // leftovers of the episode before
      pending.clear();
      if (window.jQuery) jQuery.fx.off = true;
      document.activeElement?.blur();
      for (const element of document.querySelectorAll('input, textarea, select')) element.blur();
      if (mode) core.setDataMode(mode);
      core.EPISODE_MAX_TIME = limit;
      Math.seedrandom(seed);
      core.startEpisodeReal();
      while (!WOB_TASK_READY) await new Promise((done) => setTimer(done, 10));
      window.scrollTo(0, 0);
      await settled(SOON);
      const goal = core.getUtterance();
      return JSON.stringify({goal: typeof goal === 'string' ? goal : goal.utterance});
    },
    async read(limit) { await settled(limit); return read(); },
  };

  const style = document.createElement('style');
  style.textContent = `
    #sync-task-cover, #reward-display, #click-canvas { display: none !important; }
    html { overflow-x: hidden; caret-animation: manual; }
    select:not([multiple], [size]), select:not([multiple], [size])::picker(select) { appearance: base-select; }`;
  new MutationObserver((_, observer) => {
    if (document.head) { observer.disconnect(); document.head.prepend(style); }
  }).observe(document, {childList: true, subtree: true});
})();
