// What doing something here would bring about that cannot be taken back: one short phrase, or ''. Called with the point
// of a click (or null for the element with the focus) and with what is about to be done there: 'click', 'write', 'enter'.
((point, deed) => {
  'use strict';
  const within = (root, x, y) => {
    const element = root.elementFromPoint(x, y);
    const inner = element?.shadowRoot;
    return inner && inner.elementFromPoint(x, y) !== element ? within(inner, x, y) ?? element : element;
  };
  const focused = () => {
    let element = document.activeElement;
    while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
    return element;
  };
  const element = point ? within(document, ...point) : focused();
  if (!element) return '';
  const short = (text) => text.replace(/\s+/g, ' ').trim().slice(0, 60);
  const autocomplete = (element.getAttribute?.('autocomplete') ?? '').toLowerCase();
  if (deed === 'write') {
    if (element.type === 'password' || /password|one-time-code/.test(autocomplete)) return 'types into a password field';
    if (/^cc-|\bcc-/.test(autocomplete)) return 'types payment data';
    return '';
  }
  const form = element.form ?? element.closest?.('form');
  if (deed === 'enter') {
    if (!form || element.localName === 'textarea') return '';
    const search = form.getAttribute('role') === 'search' || element.type === 'search' || form.method === 'get';
    return search && !form.querySelector('[type=password]') ? '' : 'submits a form';
  }
  const control = element.closest?.('button, a, input, summary, label, [role=button], [role=link], [role=menuitem], [onclick]');
  if (!control) return '';
  if (control.localName === 'a' && control.hasAttribute('download')) return 'downloads a file';
  const name = short(control.getAttribute('aria-label') || control.value || control.innerText || control.title || '');
  const grave = new RegExp(
    '\\b(pay|buy|purchase|order|check ?out|book|reserve|subscribe|donate|bid|transfer|send|submit|post|publish|share|tweet|' +
    'reply|delete|remove|erase|discard|cancel (order|subscription)|unsubscribe|deactivate|close account|sign (in|up)|log ?in|' +
    'register|accept|agree|consent|confirm|authori[sz]e|grant|allow|download|install)\\b', 'i');
  if (grave.test(name)) return `presses "${name}"`;
  const submits = control.type === 'submit' || control.type === 'image';
  if (submits && form && (form.method !== 'get' || form.querySelector('[type=password]'))) return 'submits a form';
  return '';
})
