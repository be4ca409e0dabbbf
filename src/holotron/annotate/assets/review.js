'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const $ = (id) => document.getElementById(id);
const KEY = `holotron-review-${data.store}`;
let decisions = {};
try { decisions = JSON.parse(localStorage.getItem(KEY)) ?? {}; } catch { /* storage is off: decisions last as long as the page */ }
let shown = [], chosen = null;

const percent = (value) => (value === null ? '–' : `${Math.round(100 * value)} %`);
const node = (tag, css, text) => Object.assign(document.createElement(tag), { className: css, textContent: text ?? '' });
const svgNode = (tag, attributes) => {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
};
const answerOf = (label) => {
  if (label.kind === 'point') return label.point ? `click at ${label.point.map(Math.round).join(', ')}` : label.text ?? 'no point';
  if (label.kind === 'box') return label.box ? `box ${label.box.map(Math.round).join(', ')}` : 'no box';
  if (label.kind === 'caption') return label.text ?? 'no caption';
  return label.success === null ? 'no verdict' : label.success ? 'success' : 'failure';
};

function draw(label) {
  const unit = Math.max(label.width, label.height) / 100;
  const svg = svgNode('svg', { viewBox: `0 0 ${label.width} ${label.height}`, preserveAspectRatio: 'none' });
  for (const value of label.answers) {
    if (!Array.isArray(value)) continue;
    if (value.length === 2) svg.append(svgNode('circle', { class: 'other', cx: value[0], cy: value[1], r: 0.5 * unit }));
    else svg.append(svgNode('rect', { class: 'other-box', x: value[0], y: value[1], width: value[2] - value[0],
                                      height: value[3] - value[1], 'stroke-width': 0.15 * unit }));
  }
  if (label.point) {
    const [cx, cy] = label.point;
    svg.append(svgNode('circle', { class: 'halo', cx, cy, r: 1.8 * unit, 'stroke-width': 0.7 * unit }),
               svgNode('circle', { class: 'ring', cx, cy, r: 1.8 * unit, 'stroke-width': 0.35 * unit }),
               svgNode('circle', { class: 'dot', cx, cy, r: 0.4 * unit }));
  }
  if (label.box) {
    const [left, top, right, bottom] = label.box;
    const place = { x: left, y: top, width: right - left, height: bottom - top };
    svg.append(svgNode('rect', { class: 'halo', ...place, 'stroke-width': 0.7 * unit }),
               svgNode('rect', { class: 'box', ...place, 'stroke-width': 0.3 * unit }));
  }
  return svg;
}

function show(label) {
  chosen = label;
  for (const item of $('list').children) item.classList.toggle('chosen', item.dataset.id === label?.id);
  $('stage').hidden = !label;
  if (!label) return;
  $('question').textContent = label.instruction ? `${label.instruction} → ${answerOf(label)}` : answerOf(label);
  const who = label.second ? `${label.model}, checked by ${label.second}` : label.model;
  $('facts').textContent = `${label.id} · ${label.kind} · confidence ${percent(label.confidence)} · ${who} · ` +
    (decisions[label.id] ? `${decisions[label.id]}ed` : 'undecided');
  $('screens').replaceChildren(...label.images.map((index, place) => {
    const screen = node('div', 'screen');
    if (index === null) { screen.textContent = 'not on this page'; return screen; }
    const image = node('img', '');
    image.src = data.images[index];
    image.alt = `screenshot ${place + 1}`;
    screen.append(image);
    if (place === label.images.length - 1) screen.append(draw(label));
    return screen;
  }));
  const remark = [...label.context, label.remark].filter(Boolean).join('\n');
  $('remark').textContent = remark;
  $('remark').hidden = !remark;
}

function list() {
  const low = $('low').value / 100, high = $('high').value / 100;
  const words = $('search').value.toLowerCase();
  $('low-value').textContent = percent(low);
  $('high-value').textContent = percent(high);
  // What has no confidence is shown only while nothing is filtered by it.
  const sure = (label) => (label.confidence === null ? low === 0 && high === 1
                                                     : label.confidence >= low - 1e-9 && label.confidence <= high + 1e-9);
  const wanted = $('decided').value;
  shown = data.labels.filter((label) => sure(label) &&
    (!wanted || (decisions[label.id] ?? 'open') === wanted) &&
    `${label.id} ${label.instruction} ${answerOf(label)}`.toLowerCase().includes(words));
  $('list').replaceChildren(...shown.map((label) => {
    const item = node('li', '');
    item.dataset.id = label.id;
    const state = decisions[label.id];
    const mark = node('span', state ?? '', state === 'accept' ? '✓' : state === 'reject' ? '✗' : '');
    item.append(node('span', 'sure', percent(label.confidence)),
                node('span', 'what', label.instruction || answerOf(label)), mark);
    item.onclick = () => show(label);
    return item;
  }));
  const accepted = Object.values(decisions).filter((d) => d === 'accept').length;
  $('count').textContent = `${shown.length} of ${data.labels.length} · ${accepted} accepted, ` +
    `${Object.keys(decisions).length - accepted} rejected`;
}

function step(by) {
  const at = shown.indexOf(chosen);
  const next = shown[Math.min(Math.max(at + by, 0), shown.length - 1)];
  if (next) { show(next); $('list').children[shown.indexOf(next)].scrollIntoView({ block: 'nearest' }); }
}

function decide(what) {
  if (!chosen) return;
  const at = shown.indexOf(chosen);
  if (what) decisions[chosen.id] = what; else delete decisions[chosen.id];
  try { localStorage.setItem(KEY, JSON.stringify(decisions)); } catch { /* see above */ }
  const following = what ? shown[at + 1] ?? chosen : chosen;
  list();
  show(following);
}

$('title').textContent = data.title;
$('notice').textContent = data.notice;
$('notice').hidden = !data.notice;
for (const id of ['low', 'high', 'decided', 'search']) $(id).addEventListener('input', () => { list(); show(shown[0] ?? null); });
$('accept').onclick = () => decide('accept');
$('reject').onclick = () => decide('reject');
$('clear').onclick = () => decide(null);
$('export').onclick = () => {
  const link = node('a', '');
  link.href = URL.createObjectURL(new Blob([JSON.stringify(decisions, null, 2)], { type: 'application/json' }));
  link.download = 'decisions.json';
  link.click();
};
addEventListener('keydown', (event) => {
  if (event.target.matches('input, select') || event.ctrlKey || event.metaKey) return;
  const does = { ArrowDown: () => step(1), ArrowUp: () => step(-1), a: () => decide('accept'), r: () => decide('reject'),
                 u: () => decide(null) }[event.key];
  if (does) { event.preventDefault(); does(); }
});
list();
show(shown[0] ?? null);
