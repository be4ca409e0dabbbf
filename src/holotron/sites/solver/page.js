// What the solver knows of a page: every element with a `data-e` name, where it is, and where a click reaches it.
// Options of an open list count too, as `name=label`. One JSON string: objects are slow to carry over the protocol.
(() => {
  const W = innerWidth, H = innerHeight;
  const squeeze = (s) => s.replace(/\s+/g, ' ').trim();
  const inside = (r) => Math.min(r.bottom, H) - Math.max(r.top, 0) >= Math.min(r.height, 14) &&
    Math.min(r.right, W) - Math.max(r.left, 0) >= Math.min(r.width, 14);
  const reaches = (e, x, y) => {
    const hit = document.elementFromPoint(x, y);
    return hit && (hit === e || e.contains(hit)) ? true : hit;
  };
  // The middle of what can be seen of the element, or the nearest free spot; else what lies on top of it.
  const aim = (e, r) => {
    const left = Math.max(r.left, 0), top = Math.max(r.top, 0);
    const w = Math.min(r.right, W) - left, h = Math.min(r.bottom, H) - top;
    const above = reaches(e, left + w / 2, top + h / 2);
    if (above === true) return [[left + w / 2, top + h / 2], ''];
    for (const fy of [.5, .3, .7, .15]) for (const fx of [.3, .7, .12, .88]) {
      const x = left + w * fx, y = top + h * fy;
      if (reaches(e, x, y) === true) return [[x, y], ''];
    }
    return [null, above?.closest('[data-cover]')?.dataset.cover ?? above?.localName ?? 'nothing'];
  };
  const elements = [];
  const add = (e, name, extra = {}) => {
    const r = e.getBoundingClientRect();
    if (!r.width || !r.height || !e.checkVisibility({visibilityProperty: true})) {  // a closed menu has a size
      elements.push({name, hidden: true});
      return;
    }
    const shown = inside(r);
    const [point, cover] = shown ? aim(e, r) : [null, ''];
    elements.push({
      name, text: squeeze(e.textContent).slice(0, 200), value: typeof e.value === 'string' ? e.value : '',
      checked: Boolean(e.checked), disabled: Boolean(e.disabled), top: r.top, bottom: r.bottom, shown, point, cover,
      ...extra,
    });
  };
  for (const e of document.querySelectorAll('[data-e]')) {
    const name = e.dataset.e;
    if (e.localName !== 'select') { add(e, name); continue; }
    const open = e.matches(':open');
    add(e, name, {label: squeeze(e.selectedOptions[0]?.label ?? ''), open});
    if (open) for (const option of e.options) add(option, `${name}=${squeeze(option.label)}`);
  }
  return JSON.stringify({
    page: document.querySelector('[data-page]')?.dataset.page ?? '', host: location.hostname,
    path: location.pathname, query: Object.fromEntries(new URLSearchParams(location.search)),
    height: H, elements,
  });
})()
