// Before a screenshot: hides the given texts wherever this page shows them, in fields and in running text.
((texts) => {
  'use strict';
  const ranges = [];
  const visit = (root) => {
    for (const field of root.querySelectorAll('input, textarea'))
      if (texts.some((text) => field.value.includes(text)))
        field.style.setProperty('-webkit-text-security', 'disc', 'important');
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode())
      for (const text of texts)
        for (let at = node.data.indexOf(text); at >= 0; at = node.data.indexOf(text, at + text.length)) {
          const range = new Range();
          range.setStart(node, at);
          range.setEnd(node, at + text.length);
          ranges.push(range);
        }
    for (const element of root.querySelectorAll('*')) if (element.shadowRoot) visit(element.shadowRoot);
    const frames = [...root.querySelectorAll('iframe')].map((frame) => { try { return frame.contentDocument; } catch { return null; } });
    for (const inner of frames) if (inner?.body) visit(inner);
  };
  visit(document);
  for (const owner of new Set([document, ...ranges.map((range) => range.startContainer.ownerDocument)])) {
    const view = owner.defaultView;
    if (!view?.CSS?.highlights) continue;
    if (!owner.__holotron_mask) {
      const sheet = owner.__holotron_mask = new view.CSSStyleSheet();
      sheet.replaceSync('::highlight(holotron-secret) { color: transparent; background: #444; text-shadow: none; }');
      owner.adoptedStyleSheets.push(sheet);
    }
    const mine = ranges.filter((range) => range.startContainer.ownerDocument === owner);
    view.CSS.highlights.set('holotron-secret', new view.Highlight(...mine));
  }
})
