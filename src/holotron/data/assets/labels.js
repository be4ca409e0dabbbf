// Everything there is to know about the page as it is drawn now, as one JSON string:
//   elements: role, name, value, states, visible box, colours ...
//   text:     every visible character, line after line;  boxes: left, top, right, bottom of each, in 1/16 CSS pixel
//   lines:    start, stop, element (-1: none) of each line
// "Visible" is taken seriously: clipped by scrolling boxes, by the viewport and by ellipses, covered by other elements.
(() => {
  const VIEW = [0, 0, innerWidth, innerHeight];
  const UNIT = 16;
  const unit = (value) => Math.round(value * UNIT);
  const area = (b) => Math.max(0, b[2] - b[0]) * Math.max(0, b[3] - b[1]);
  const cut = (a, b) => [Math.max(a[0], b[0]), Math.max(a[1], b[1]), Math.min(a[2], b[2]), Math.min(a[3], b[3])];
  const boxOf = (rect) => [rect.left, rect.top, rect.right, rect.bottom];
  const clean = (text) => (text ?? '').replace(/\s+/g, ' ').trim();

  const remember = (compute) => {
    const known = new Map();
    return (element) => {
      let value = known.get(element);
      if (value === undefined) known.set(element, (value = compute(element)));
      return value;
    };
  };
  const styleOf = remember((element) => getComputedStyle(element));
  const shown = remember((element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true }));

  // What can be seen of an element's content: the viewport, cut by every ancestor that clips.
  const clipOf = remember((element) => {
    if (!element || element === document.documentElement || element === document.body) return VIEW;
    const style = styleOf(element);
    const around = style.position === 'fixed' ? VIEW : clipOf(element.parentElement);
    if (style.overflowX === 'visible' && style.overflowY === 'visible') return around;
    const r = element.getBoundingClientRect();
    const left = r.left + element.clientLeft, top = r.top + element.clientTop;
    return cut(around, [left, top, left + element.clientWidth, top + element.clientHeight]);
  });
  const opaque = remember((element) => {
    const style = styleOf(element);
    if (/^(IMG|CANVAS|VIDEO|IFRAME|INPUT|SELECT|TEXTAREA|BUTTON)$/.test(element.tagName)) return true;
    if (style.backgroundImage !== 'none') return true;
    const alpha = style.backgroundColor.match(/rgba\(.*, ([\d.]+)\)/);
    return (alpha ? Number(alpha[1]) : 1) * Number(style.opacity) > 0.9;
  });
  const related = (hit, element) => hit && (hit === element || element.contains(hit) || hit.contains(element));
  // Can the text of `element` be seen at this point? Looks through veils such as a dialog's backdrop.
  const seen = (element, x, y) => {
    if (related(document.elementFromPoint(x, y), element)) return true;
    for (const hit of document.elementsFromPoint(x, y)) {
      if (related(hit, element)) return true;
      if (opaque(hit)) return false;
    }
    return true; // nothing else claims the point: text that takes no clicks
  };
  // Does a click at this point reach the element?
  const hits = (element, x, y) => {
    const hit = document.elementFromPoint(x, y);
    if (!hit) return false;
    return hit === element || element.contains(hit) || hit.closest?.('label')?.control === element;
  };

  // ------------------------------------------------------------------------------------------------------- elements
  const INPUTS = { checkbox: 'checkbox', radio: 'radio', range: 'slider', number: 'spinbutton', button: 'button',
                   submit: 'button', reset: 'button', image: 'button', color: 'swatch', hidden: '' };
  const TAGS = { BUTTON: 'button', TEXTAREA: 'textbox', SELECT: 'combobox', IMG: 'image', TH: 'columnheader', TD: 'cell',
                 SUMMARY: 'button', LABEL: 'label', LEGEND: 'label', P: 'paragraph', DIALOG: 'dialog', PROGRESS: 'progressbar',
                 H1: 'heading', H2: 'heading', H3: 'heading', H4: 'heading', H5: 'heading', H6: 'heading' };
  const roleOf = (element) => {
    const given = element.dataset?.role ?? element.getAttribute('role');
    if (given !== null && given !== undefined) return given === 'none' ? '' : given;
    if (element.tagName === 'INPUT') return INPUTS[element.type] ?? 'textbox';
    if (element.tagName === 'A') return element.hasAttribute('href') ? 'link' : '';
    return TAGS[element.tagName] ?? '';
  };
  const CONTAINERS = new Set(['row', 'card', 'dialog', 'menu', 'list', 'table', 'tablist', 'tree', 'section']);
  const CLICKED_WHOLE = new Set(['row', 'card']);
  const statesOf = (element) => {
    const states = [];
    const on = (name) => element.getAttribute(`aria-${name}`) === 'true';
    if (element.checked || on('checked') || on('pressed')) states.push('checked');
    if (on('selected') || element.hasAttribute('aria-current')) states.push('selected');
    if (element.disabled || on('disabled')) states.push('disabled');
    if (on('expanded')) states.push('expanded');
    if (element === document.activeElement && element !== document.body) states.push('focused');
    return states;
  };
  const valueOf = (element) => {
    if (element.tagName === 'SELECT') return clean(element.selectedOptions[0]?.text);
    if (/^(checkbox|radio|button|submit|reset)$/.test(element.type)) return '';
    if (element.type === 'password') return '•'.repeat(element.value.length); // as it can be seen
    return element.value !== undefined && element.tagName !== 'LI' && element.tagName !== 'BUTTON'
      ? String(element.value) : element.dataset?.value ?? '';
  };
  const labelOf = (element) =>
    element.dataset?.name ?? element.getAttribute('aria-label') ??
    clean(element.labels?.[0]?.textContent) ?? '';

  const elements = [], indexOf = new Map();
  for (const element of document.body.querySelectorAll('*')) {
    const role = roleOf(element);
    if (!role || !shown(element)) continue;
    const whole = boxOf(element.getBoundingClientRect());
    let visible = cut(whole, clipOf(element.parentElement));
    if (styleOf(element).position === 'fixed') visible = cut(whole, VIEW);
    const size = area(whole);
    if (size < 4 || area(visible) < 0.3 * size) continue;
    const [l, t, r, b] = visible;
    const at = (fx, fy) => hits(element, l + (r - l) * fx, t + (b - t) * fy);
    // The middle of a card or a row may lie on one of its own buttons, which would take the click.
    const inner = CLICKED_WHOLE.has(role) && document.elementFromPoint((l + r) / 2, (t + b) / 2)
      ?.closest('a[href], button, input, select, textarea, label');
    const centre = at(0.5, 0.5) && !(inner && element.contains(inner));
    const around = [at(0.25, 0.25), at(0.75, 0.25), at(0.25, 0.75), at(0.75, 0.75)];
    if (!centre && !around.some(Boolean)) continue;
    const style = styleOf(element);
    const icon = element.dataset.icon ?? element.querySelector('[data-icon]')?.dataset.icon ?? '';
    const row = { role, box: visible.map((v) => Math.round(v * 100) / 100), text: '', icon, label: labelOf(element),
                  value: valueOf(element), states: statesOf(element), placeholder: element.placeholder ?? '',
                  within: element.parentElement.closest('[data-item]')?.dataset.item ?? '',
                  background: element.dataset.colour ?? style.backgroundColor,
                  exposed: centre && (role === 'shape' || around.every(Boolean)) && area(visible) > 0.7 * size,
                  key: element.dataset.key ?? '' };
    indexOf.set(element, elements.length);
    elements.push(row);
  }

  // ----------------------------------------------------------------------------------------------------- characters
  const text = [], boxes = [], lines = [];
  let line = null; // the line being read: {start, block, owner, box of its last character}
  const ownersOf = (element) => {
    const owners = [];
    for (let e = element; e; e = e.parentElement) if (indexOf.has(e)) owners.push(indexOf.get(e));
    return owners;
  };
  const endLine = () => {
    if (!line) return;
    while (text.length > line.start && text[text.length - 1] === ' ') { text.pop(); boxes.length -= 4; }
    if (text.length > line.start) {
      const read = text.slice(line.start).join('');
      const owners = ownersOf(line.owner);
      lines.push(line.start, text.length, owners[0] ?? -1);
      for (const owner of owners) {
        const row = elements[owner];
        if (!CONTAINERS.has(row.role)) row.text += (row.text ? ' ' : '') + read;
      }
    }
    line = null;
  };
  const put = (character, box, owner, block) => {
    const height = box[3] - box[1];
    if (line) {
      const last = line.box;
      const sameRow = Math.abs((box[1] + box[3]) / 2 - (last[1] + last[3]) / 2) < 0.5 * Math.min(height, last[3] - last[1]);
      const gap = box[0] - last[2];
      if (line.block !== block || !sameRow || gap < -2 || gap > 0.6 * height) endLine();
    }
    if (!line) {
      if (character === ' ') return;
      line = { start: text.length, block, owner, box };
    } else if (line.owner !== owner) {
      while (line.owner && !line.owner.contains(owner)) line.owner = line.owner.parentElement;
    }
    line.box = box;
    text.push(character);
    boxes.push(unit(box[0]), unit(box[1]), unit(box[2]), unit(box[3]));
  };
  const place = (character, box, owner, block, clip) => {
    const space = /\s/.test(character);
    const visible = cut(box, clip);
    if (area(visible) < 0.6 * area(box)) return endLine();
    if (!space && !seen(owner, (visible[0] + visible[2]) / 2, (visible[1] + visible[3]) / 2)) return endLine();
    put(space ? ' ' : character, visible, owner, block);
  };

  const pen = document.createElement('canvas').getContext('2d');
  const usePen = (style) => {
    pen.font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
    pen.letterSpacing = style.letterSpacing === 'normal' ? '0px' : style.letterSpacing;
  };
  const blockOf = remember((element) => {
    for (let e = element; ; e = e.parentElement)
      if (e === document.body || !/^(inline|contents)$/.test(styleOf(e).display)) return e;
  });
  const changeCase = { uppercase: (c) => c.toUpperCase(), lowercase: (c) => c.toLowerCase() };
  const drawnAs = (character, transform) => {
    const changed = changeCase[transform]?.(character) ?? character;
    return [...changed].length === 1 ? changed : character;
  };
  // Where an ellipsis begins to replace the text of a block; null when all of it fits.
  const ellipsisOf = remember((block) => {
    const style = styleOf(block);
    if (style.textOverflow !== 'ellipsis' || style.overflowX === 'visible' || block.scrollWidth <= block.clientWidth) return null;
    usePen(style);
    const width = pen.measureText('…').width;
    const right = block.getBoundingClientRect().left + block.clientLeft + block.clientWidth - parseFloat(style.paddingRight);
    return { width, limit: right - width };
  });

  // Text inside form fields lies in shadow trees that no Range reaches: it is measured instead.
  const fieldText = (element) => {
    const style = styleOf(element);
    const select = element.tagName === 'SELECT';
    const button = /^(button|submit|reset)$/.test(element.type) && element.tagName === 'INPUT';
    if (element.tagName === 'INPUT' && /^(checkbox|radio|range|color|hidden|file|image)$/.test(element.type)) return;
    let value = select ? element.selectedOptions[0]?.text ?? '' : element.value || element.placeholder || '';
    if (element.type === 'password' && element.value) value = '•'.repeat([...value].length);
    if (!value) return;
    usePen(style);
    const size = pen.measureText('x');
    const height = size.fontBoundingBoxAscent + size.fontBoundingBoxDescent;
    const r = element.getBoundingClientRect();
    const number = (name) => parseFloat(style[name]) || 0;
    const menu = select && style.appearance !== 'none' ? 4 : 0; // the native list keeps this much inside its padding
    const left = r.left + number('borderLeftWidth') + number('paddingLeft') + menu;
    const right = r.right - number('borderRightWidth') - number('paddingRight') - menu;
    const top = r.top + number('borderTopWidth') + number('paddingTop');
    const bottom = r.bottom - number('borderBottomWidth') - number('paddingBottom');
    const area = element.tagName === 'TEXTAREA';
    const step = area ? parseFloat(style.lineHeight) || height : 0;
    const clip = cut(clipOf(element.parentElement), [left - 1, r.top, right + 1, r.bottom]);
    value.split('\n').forEach((row, nth) => {
      const width = pen.measureText(row).width;
      const centred = button || style.textAlign === 'center';
      let x = centred ? (left + right - width) / 2 : style.textAlign === 'right' ? right - width : left;
      x -= element.scrollLeft;
      const middle = area ? top + (nth + 0.5) * step - element.scrollTop : (top + bottom) / 2;
      let before = '';
      for (const character of row) {
        const from = x + pen.measureText(before).width;
        before += character;
        const to = x + pen.measureText(before).width;
        if (to > from) place(character, [from, middle - height / 2, to, middle + height / 2], element, element, clip);
      }
      endLine();
    });
  };

  const range = document.createRange();
  const cutShort = new Set();
  const nodeText = (node) => {
    const owner = node.parentElement;
    if (!shown(owner) || /^(SCRIPT|STYLE|OPTION|TEXTAREA|TITLE)$/.test(owner.tagName)) return;
    const style = styleOf(owner);
    if (/^rgba.*, 0\)$/.test(style.color) || parseFloat(style.fontSize) < 1) return;
    const block = blockOf(owner), clip = clipOf(owner), ellipsis = ellipsisOf(block);
    let offset = 0;
    for (const character of node.data) {
      range.setStart(node, offset);
      range.setEnd(node, (offset += character.length));
      if (cutShort.has(block)) break;
      const rects = range.getClientRects();
      let rect = rects[0];
      if (rects.length > 1 && !(rect.width > 0)) rect = rects[rects.length - 1]; // the first character after a line break
      if (!rect || !(rect.width > 0)) continue;
      const box = boxOf(rect);
      if (ellipsis && box[2] > ellipsis.limit + 0.02) {
        cutShort.add(block); // the rest of the row gives way to the ellipsis
        place('…', [box[0], box[1], box[0] + ellipsis.width, box[3]], owner, block, clip);
        continue;
      }
      place(drawnAs(character, style.textTransform), box, owner, block, clip);
    }
  };

  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (node.nodeType === Node.TEXT_NODE) nodeText(node);
    else if (/^(INPUT|TEXTAREA|SELECT)$/.test(node.tagName) && shown(node)) { endLine(); fieldText(node); }
    else if (node.tagName === 'BR') endLine();
  }
  endLine();
  return JSON.stringify({ elements, text: text.join(''), boxes, lines });
})()
