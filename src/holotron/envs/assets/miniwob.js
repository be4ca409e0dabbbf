// Runs in every MiniWoB++ page before the page's own scripts: makes the page's start independent of chance, and starts
// and reads episodes.
(() => {
  if (window.top !== window) return;

  // Chance before the first Math.seedrandom(): some pages draw while they load. Park-Miller, always the same start.
  let state = 1;
  Math.random = () => (state = (state * 48271) % 2147483647) / 2147483647;

  const sleep = window.__clock?.sleep ?? ((milliseconds) => new Promise((done) => setTimeout(done, milliseconds)));

  // Every picture the style sheets name is fetched and kept, so that icons are there in the first frame that shows them.
  const pictures = [];
  const fetchPictures = async () => {
    const wanted = new Set();
    for (const sheet of document.styleSheets) {
      for (const rule of sheet.cssRules)
        for (const [, url] of rule.cssText.matchAll(/url\("?([^")]+)"?\)/g))
          if (!url.startsWith('data:')) wanted.add(new URL(url, sheet.href ?? location.href).href);
    }
    await Promise.allSettled([...wanted].map((url) => {
      const picture = new Image();
      picture.src = url;
      pictures.push(picture);
      return picture.decode();
    }));
  };

  const settled = async (least, most) => {
    if (window.__clock) __clock.advance(least, most);
    else await sleep(50);
    const loading = [...document.images].filter((image) => !image.complete);
    if (loading.length) await Promise.allSettled(loading.map((image) => image.decode()));
  };

  let running = false;  // false again in the new document when the page is left or loads itself again
  let ready = null;

  window.__holotron = {
    async start(seed, limit, mode, least, most) {
      await (ready ??= fetchPictures());
      if (window.jQuery) jQuery.fx.off = true;
      if (window.__clock && !__clock.restart()) return null;  // only a new load of the page will do
      document.activeElement?.blur();
      for (const element of document.querySelectorAll('*')) if (element.scrollTop) element.scrollTop = 0;
      if (mode) core.setDataMode(mode);
      core.EPISODE_MAX_TIME = limit;
      Math.seedrandom(seed);
      core.startEpisodeReal();
      while (!WOB_TASK_READY) { await sleep(10); window.__clock?.advance(10, 10); }
      await settled(least, most);
      window.scrollTo(0, 0);
      running = true;
      const goal = core.getUtterance();
      return typeof goal === 'string' ? goal : goal.utterance;
    },
    async read(least, most) {
      if (!running) return '{}';
      await settled(least, most);
      return JSON.stringify({
        running: true, done: WOB_DONE_GLOBAL, reward: WOB_REWARD_GLOBAL, raw: WOB_RAW_REWARD_GLOBAL,
        reason: WOB_REWARD_REASON ?? null, x: window.scrollX, y: window.scrollY,
      });
    },
  };

  const style = document.createElement('style');
  style.textContent = `
    #sync-task-cover, #reward-display, #click-canvas { display: none !important; }
    html { overflow-x: hidden; }
    * { transition: none !important; animation: none !important; }`;
  new MutationObserver((_, observer) => {
    if (document.head) { observer.disconnect(); document.head.prepend(style); }
  }).observe(document, {childList: true, subtree: true});
})();
