// What can be read in the window, however small or pale, and which injected parts can be seen there.
(() => {
  const inWindow = (r) =>
    r.width && r.height && r.bottom > 0 && r.top < innerHeight && r.right > 0 && r.left < innerWidth;
  const shown = (e) => e.checkVisibility({visibilityProperty: true});
  const texts = [], range = document.createRange();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (/^(SCRIPT|STYLE)$/.test(node.parentNode.nodeName) || !node.data.trim()) continue;
    range.selectNodeContents(node);
    if (inWindow(range.getBoundingClientRect()) && shown(node.parentNode)) texts.push(node.data);
  }
  const parts = [...document.querySelectorAll('[data-injected]')]
    .filter((e) => inWindow(e.getBoundingClientRect()) && shown(e)).map((e) => e.dataset.injected);
  return JSON.stringify({text: texts.join(' ').replace(/\s+/g, ' '), parts});
})()
