// What kind of field an element is, for whoever is about to type into it: {kind, search, text}. Runs in a world of our own.
(element) => {
  'use strict';
  const said = (name) => (element.getAttribute?.(name) ?? '').toLowerCase();
  const hints = said('autocomplete'), names = `${said('name')} ${said('id')} ${hints}`;
  const hidden = getComputedStyle(element).webkitTextSecurity;
  let kind = '';
  if (said('type') === 'password' || element.type === 'password' || (hidden && hidden !== 'none')) kind = 'password';
  else if (/password|one-time-code/.test(hints)) kind = 'password';
  else if (/(^|\s)cc-/.test(hints) || /card.?(num|no)|cc.?num|cardnumber|\bcv[cv]2?\b|security.?code|\biban\b/.test(names))
    kind = 'payment';
  const form = element.form, role = said('role');
  const search = element.type === 'search' || role === 'searchbox' || form?.getAttribute('role') === 'search' ||
    !!element.closest('search, [role=search]') ||
    /^(q|s|k|query|search|keywords?|term|find|filter)$|search|suche|recherche|buscar|ricerca|zoek/.test(said('name') || said('id'));
  const plain = ['text', 'password', 'email', 'search', 'tel', 'url', 'number'];
  const text = !element.disabled && !element.readOnly && (element.localName === 'textarea' || element.isContentEditable ||
    (element.localName === 'input' && plain.includes(element.type)));
  return {kind, search, text: !!text};
}
