// What has the focus in this document, for whoever is about to type: {kind, search, frame, sealed}. A frame is looked into
// by the caller; `sealed` is an element that may hide a field where no script can look.
() => {
  'use strict';
  let element = document.activeElement;
  while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
  if (!element || element === document.body) return {kind: '', search: false, frame: null, sealed: false};
  if (element.localName === 'iframe' || element.localName === 'frame')
    return {kind: '', search: false, frame: element, sealed: false};
  const said = (name) => (element.getAttribute?.(name) ?? '').toLowerCase();
  const hints = said('autocomplete'), names = `${said('name')} ${said('id')} ${hints}`;
  const hidden = getComputedStyle(element).webkitTextSecurity;
  let kind = '';
  if (said('type') === 'password' || element.type === 'password' || (hidden && hidden !== 'none')) kind = 'a password';
  else if (/password|one-time-code/.test(hints)) kind = 'a password';
  else if (/(^|\s)cc-/.test(hints) || /card.?(num|no)|cc.?num|cardnumber|\bcv[cv]2?\b|security.?code|\biban\b/.test(names))
    kind = 'payment data';
  const form = element.form, role = said('role');
  const search = element.type === 'search' || role === 'searchbox' || form?.getAttribute('role') === 'search' ||
    !!element.closest('search, [role=search]') ||
    /^(q|s|k|query|search|keywords?|term|find|filter)$|search|suche|recherche|buscar|ricerca|zoek/.test(said('name') || said('id'));
  const plain = ['input', 'textarea', 'select', 'button', 'a', 'area', 'summary', 'video', 'audio', 'object', 'embed'];
  const sealed = !plain.includes(element.localName) && !element.isContentEditable && !element.shadowRoot;
  return {kind, search, frame: null, sealed};
}
