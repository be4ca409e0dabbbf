// What the page calls the thing at a point, or the thing that has the focus (point null): its name, for the wording of a
// question. Frames of the same site are looked into.
((point) => {
  'use strict';
  const at = (root, x, y) => {
    const element = root.elementFromPoint(x, y);
    if (!element) return null;
    if (element.shadowRoot) { const inner = at(element.shadowRoot, x, y); if (inner && inner !== element) return inner; }
    if (element.localName === 'iframe') {
      try {
        const {left, top} = element.getBoundingClientRect();
        return at(element.contentDocument, x - left - element.clientLeft, y - top - element.clientTop) ?? element;
      } catch { return element; }
    }
    return element;
  };
  const focused = () => {
    let element = document.activeElement;
    for (let inner = element; inner; ) {
      element = inner;
      try { inner = inner.shadowRoot?.activeElement ?? inner.contentDocument?.activeElement; } catch { break; }
    }
    return element;
  };
  const element = point ? at(document, ...point) : focused();
  const control = element?.closest?.('button, a, input, summary, label, [role=button], [role=link], [role=menuitem], [onclick]');
  if (!control) return '';
  const secret = control.type === 'password';
  const value = ['submit', 'button', 'reset'].includes(control.type) ? control.value : '';
  const name = control.getAttribute('aria-label') || value || (secret ? '' : control.innerText) || control.title ||
    control.querySelector?.('img[alt]')?.alt || '';
  return name.replace(/\s+/g, ' ').trim().slice(0, 4000);  // whoever shows it cuts it, after secrets are taken out
})
