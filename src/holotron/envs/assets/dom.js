// The visible elements of the page as one JSON string (an object result would be many times slower to transfer).
// Text that shares its parent with elements is listed on its own as "#text". Parents come before their children.
(() => {
  const rows = [];
  const round = (value) => Math.round(value * 100) / 100;

  const visit = (element, parent) => {
    const style = getComputedStyle(element);
    if (style.display === 'none') return;
    const box = element.getBoundingClientRect();
    let index = parent;
    const shown = box.width > 0 && box.height > 0 && style.visibility === 'visible' && style.opacity !== '0';
    if (shown) {
      index = rows.length;
      rows.push(describe(element, style, box, parent));
    }
    const children = [...element.childNodes].filter((node) => node.nodeType === 1 || node.nodeType === 3);
    const mixed = children.some((node) => node.nodeType === 1);
    for (const node of children) {
      if (node.nodeType === 1) visit(node, index);
      else if (mixed && shown && node.data.trim()) visitText(node, index);
    }
    if (element.shadowRoot) for (const node of element.shadowRoot.children) visit(node, index);
  };

  const describe = (element, style, box, parent) => {
    const row = {tag: element.tagName.toLowerCase(), parent, rect: rect(box)};
    if (element.id) row.id = element.id;
    const names = element.getAttribute('class');
    if (names) row.classes = names.split(/\s+/).filter(Boolean);
    const text = [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data).join(' ');
    if (text.trim()) row.text = text.replace(/\s+/g, ' ').trim();
    if ('value' in element && typeof element.value === 'string') row.value = element.value;
    if (element.type && typeof element.type === 'string') row.type = element.type;
    if (element.checked === true || element.selected === true) row.checked = true;
    if (element === document.activeElement && element !== document.body) row.focused = true;
    if (element.disabled === true) row.disabled = true;
    row.color = style.color;
    if (style.backgroundColor !== 'rgba(0, 0, 0, 0)') row.background = style.backgroundColor;
    const attributes = {};
    for (const {name, value} of element.attributes)
      if (name !== 'id' && name !== 'class') attributes[name] = value.slice(0, 500);
    if (Object.keys(attributes).length) row.attributes = attributes;
    const x = box.x + box.width / 2, y = box.y + box.height / 2;
    const hit = x >= 0 && y >= 0 && x < innerWidth && y < innerHeight ? document.elementFromPoint(x, y) : null;
    if (hit && (hit === element || element.contains(hit))) row.hit = true;
    return row;
  };

  const visitText = (node, parent) => {
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    if (box.width > 0 && box.height > 0)
      rows.push({tag: '#text', parent, rect: rect(box), text: node.data.replace(/\s+/g, ' ').trim()});
  };

  const rect = (box) => [round(box.x), round(box.y), round(box.width), round(box.height)];

  visit(document.body, -1);
  return JSON.stringify(rows);
})()
