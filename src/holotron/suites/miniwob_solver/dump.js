// What a person sees of a MiniWoB++ page, as one JSON string (objects are slow to carry over the protocol).
// `height` is that of the observation: where it is less than the window's, the upper part (the instruction bar) is cut
// off, and coordinates count from there. `question` is the task's own question to the page, or null; it gets `box`, which
// turns a DOM rectangle into one in these coordinates.
(height, question) => {
  const FURNITURE = '#query, #reward-display, #click-canvas, #sync-task-cover, script, style, head, option:empty';
  const root = document.documentElement;
  const top = root.clientHeight - height;
  const viewport = [root.clientWidth, height];

  const intersect = (a, b) => {
    const x = Math.max(a[0], b[0]), y = Math.max(a[1], b[1]);
    const w = Math.min(a[0] + a[2], b[0] + b[2]) - x, h = Math.min(a[1] + a[3], b[1] + b[3]) - y;
    return w > 0.5 && h > 0.5 ? [x, y, w, h] : null;
  };
  const box = (r) => [r.left, r.top - top, r.width, r.height];

  // The part of the element that no scrolling ancestor and no window edge cuts off.
  const shownPart = (element, rect) => {
    let part = intersect(rect, [0, 0, viewport[0], viewport[1]]);
    for (let a = element.parentElement; part && a && a !== document.body; a = a.parentElement) {
      // An open picker is in the top layer: the clipping of its own <select> does not apply.
      if (a.tagName === 'SELECT' && !a.multiple) break;
      if (getComputedStyle(a).overflowY !== 'visible') part = intersect(part, box(a.getBoundingClientRect()));
    }
    return part;
  };

  const reaches = (element, x, y) => {
    const hit = document.elementFromPoint(x, y + top);
    return hit && (hit === element || element.contains(hit) || (hit.control && hit.control === element));
  };

  // Where a click lands on the element: the middle, or the free spot nearest to it when something lies on top. Only
  // for elements without children it is worth looking closely: buttons may hide all but a corner of one another.
  const clickPoint = (element, part) => {
    const [x, y, w, h] = part;
    const middle = [x + w / 2, y + h / 2];
    if (reaches(element, middle[0], middle[1])) return middle;
    const n = element.children.length ? 4 : 10;
    let best = null, nearest = Infinity;
    for (let i = 1; i < n; i++) for (let j = 1; j < n; j++) {
      const p = [x + w * i / n, y + h * j / n];
      const d = (p[0] - middle[0]) ** 2 + (p[1] - middle[1]) ** 2;
      if (d < nearest && reaches(element, p[0], p[1])) { best = p; nearest = d; }
    }
    return best;
  };

  const squeeze = (s) => s.replace(/\s+/g, ' ').trim();
  const elements = [];

  const visit = (element, parent) => {
    if (element.matches(FURNITURE)) return;
    const rects = element.getClientRects();
    let index = parent;
    if (rects.length && element !== document.body && element.id !== 'wrap') {
      const style = getComputedStyle(element);
      const rect = box(element.getBoundingClientRect());
      // Text that wraps has one rectangle per line: aim at the widest, not at the middle of them all.
      const line = [...rects].sort((a, b) => b.width - a.width)[0];
      const part = style.visibility === 'hidden' ? null : shownPart(element, rects.length > 1 ? box(line) : rect);
      const attributes = {};
      for (const a of element.attributes) if (a.name !== 'id' && a.name !== 'class') attributes[a.name] = a.value;
      const scrolls = element.scrollHeight > element.clientHeight + 1 && /auto|scroll/.test(style.overflowY);
      index = elements.length;
      elements.push({
        tag: element.tagName.toLowerCase(), id: element.id, parent,
        classes: [...element.classList],
        text: squeeze(element.textContent).slice(0, 2000),
        value: typeof element.value === 'string' ? element.value : '',
        checked: Boolean(element.checked || element.selected),
        disabled: Boolean(element.disabled),
        focused: element === document.activeElement,
        rect, shown: part, point: part && clickPoint(element, part),
        background: style.backgroundColor,
        attributes,
        scroll: scrolls ? [element.scrollTop, element.scrollHeight, element.clientHeight] : null,
      });
    }
    for (const child of element.children) visit(child, index);
  };
  visit(document.body, -1);

  const page = document.scrollingElement;
  return JSON.stringify({
    viewport, elements,
    scroll: [page.scrollTop, page.scrollHeight, page.clientHeight],
    answer: (question && question(box)) ?? null,
  });
}
