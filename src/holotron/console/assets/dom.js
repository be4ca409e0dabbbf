// Small helpers. Everything that comes from pages or models is set as text; nothing here can make markup of it, and the
// page's content policy (trusted types) would refuse it.
export const $ = (id) => document.getElementById(id);

export function element(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(options)) {
    if (key === "class") node.className = value;
    else if (key.startsWith("aria-") || key === "role" || key === "for") node.setAttribute(key, value);
    else node[key] = value;
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

// Writing what is there already would make screen readers say it again, and drop a reader's selection.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function show(node, visible) {
  if (node.hidden === visible) node.hidden = !visible;
}

export function setImage(node, source) {
  if (node.getAttribute("src") === source) return;
  if (source) node.src = source;
  else node.removeAttribute("src");
}

// A list of nodes by key: those that stay are moved, not made again, so focus and pictures survive.
export function keyed(parent, keys, make, update) {
  const have = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  let place = parent.firstChild;
  for (const key of keys) {
    let node = have.get(key);
    if (!node) {
      node = make(key);
      node.dataset.key = key;
    }
    have.delete(key);
    if (node === place) place = place.nextSibling;
    else parent.insertBefore(node, place);
    update(node, key);
  }
  for (const node of have.values()) node.remove();
}

export const frameUrl = (name, small = false) => (name ? `frames/${encodeURIComponent(name)}${small ? "?small" : ""}` : "");

export function seconds(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value < 10) return `${value.toFixed(1)} s`;
  if (value < 60) return `${Math.round(value)} s`;
  const minutes = Math.floor(value / 60);
  return minutes < 60 ? `${minutes} min ${Math.floor(value % 60)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export const count = (value) => (value >= 10000 ? `${(value / 1000).toFixed(value >= 100000 ? 0 : 1)}k` : String(value ?? 0));
export const money = (value, currency) => (value === null || value === undefined ? "" : `${value.toFixed(value < 1 ? 4 : 2)} ${currency}`);
export const one = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;

let saying = null;
// For screen readers; several changes in one moment are said once.
export function announce(text, urgent = false) {
  clearTimeout(saying);
  const node = $(urgent ? "alarm" : "announce");
  if (urgent) setText(node, text);
  else saying = setTimeout(() => setText(node, text), 300);
}

export function remembered(key, otherwise) {
  try { return localStorage.getItem(`holotron-${key}`) ?? otherwise; } catch { return otherwise; }
}
export function remember(key, value) {
  try { localStorage.setItem(`holotron-${key}`, value); } catch { /* a browser that keeps nothing */ }
}
