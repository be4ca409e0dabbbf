// What the pages of episodes do when they are used. Declarative, by attributes of whatever was clicked:
//   data-show, data-hide, data-toggle: ids of elements;  data-only: id of the one child to be shown among its siblings
//   data-put: "id=text" writes a text;  data-mark: this one is selected now, its siblings are not
//   data-log: what to note down;  data-submit: id of a form whose content is noted down
window.__log = [];
addEventListener('click', (event) => {
  const one = event.target.closest('[data-does]');
  if (!one) return;
  event.preventDefault();
  const data = one.dataset;
  const all = (ids) => (ids ?? '').split(' ').filter(Boolean).map((id) => document.getElementById(id));
  const open = (element, shown) => element.classList.toggle('hide', !shown);
  all(data.show).forEach((element) => open(element, true));
  all(data.hide).forEach((element) => open(element, false));
  all(data.toggle).forEach((element) => {
    const shown = element.classList.contains('hide');
    open(element, shown);
    if (one.hasAttribute('aria-expanded')) one.setAttribute('aria-expanded', shown);
  });
  all(data.only).forEach((element) => { for (const other of element.parentElement.children) open(other, other === element); });
  if (data.put) {
    const [id, text] = data.put.split(/=(.*)/s);
    document.getElementById(id).textContent = text;
  }
  if ('mark' in data) {
    for (const other of one.parentElement.children) {
      other.classList.toggle('on', other === one);
      if (other.hasAttribute('aria-selected')) other.setAttribute('aria-selected', other === one);
    }
  }
  if (data.role === 'switch') one.setAttribute('aria-checked', one.getAttribute('aria-checked') !== 'true');
  if (data.log) __log.push(data.log);
  if (data.submit) {
    const found = {};
    for (const field of document.getElementById(data.submit).querySelectorAll('[data-key]')) {
      const { key, role } = field.dataset;
      if (field.type === 'checkbox' || field.type === 'radio') found[key] = field.checked;
      else if (role === 'switch') found[key] = field.getAttribute('aria-checked') === 'true';
      else if (field.tagName === 'INPUT') found[key] = field.value;
      else if (role === 'combobox') found[key] = field.textContent.trim();
    }
    __log.push(found);
  }
});
