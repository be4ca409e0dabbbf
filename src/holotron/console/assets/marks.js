// Where an action acts, drawn over the screen in CSS pixels of the page it was taken of.
const SVG = "http://www.w3.org/2000/svg";

export function drawMarks(svg, action, viewport, ghost = null) {
  const key = JSON.stringify([action, viewport, ghost]);
  if (svg.dataset.key === key) return;
  svg.dataset.key = key;
  svg.replaceChildren();
  if (!viewport) return;
  const [width, height] = viewport, unit = Math.max(width, height) / 100;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  if (ghost) one(svg, ghost, width, height, unit, "ghost");
  if (action) one(svg, action, width, height, unit, "");
}

function one(svg, action, width, height, unit, style) {
  const group = shape(svg, "g", { class: style });
  const target = (x, y) => {
    shape(group, "circle", { class: "halo", cx: x, cy: y, r: 1.8 * unit, "stroke-width": 0.9 * unit });
    shape(group, "circle", { class: "ring", cx: x, cy: y, r: 1.8 * unit, "stroke-width": 0.45 * unit });
    if (!style) shape(group, "circle", { class: "ring pulse", cx: x, cy: y, r: 2.6 * unit, "stroke-width": 0.3 * unit });
    shape(group, "circle", { class: "mark", cx: x, cy: y, r: 0.4 * unit });
  };
  const label = (x, y, text) => {
    const node = shape(group, "text", { x: Math.max(unit, Math.min(x + 2.6 * unit, width - text.length * 1.15 * unit)), y: Math.max(y - 1.8 * unit, 2.6 * unit), "font-size": 2.1 * unit, "stroke-width": 0.6 * unit });
    node.textContent = text;
  };
  if (action.x1 !== undefined) {
    for (const style of ["halo", "path"]) shape(group, "line", { class: style, x1: action.x1, y1: action.y1, x2: action.x2, y2: action.y2, "stroke-width": (style === "halo" ? 0.9 : 0.45) * unit });
    shape(group, "circle", { class: "mark", cx: action.x1, cy: action.y1, r: 0.7 * unit });
    target(action.x2, action.y2);
  } else if (typeof action.x === "number" && typeof action.y === "number") target(action.x, action.y);
  const x = action.x ?? width / 2, y = action.y ?? height / 2;
  if (action.tool_name === "scroll") {
    const [dx, dy] = { up: [0, -1], down: [0, 1], left: [-1, 0], right: [1, 0] }[action.direction] || [0, 1];
    const tip = [x + dx * 9 * unit, y + dy * 9 * unit], wing = 2 * unit;
    const d = `M${x} ${y}L${tip}M${[tip[0] - (dx + dy) * wing, tip[1] - (dy + dx) * wing]}L${tip}L${[tip[0] - (dx - dy) * wing, tip[1] - (dy - dx) * wing]}`;
    for (const style of ["halo", "path"]) shape(group, "path", { class: style, d, "stroke-width": (style === "halo" ? 1.3 : 0.7) * unit });
  }
  if (action.tool_name === "write" && action.content) label(x, y, `“${action.content.slice(0, 40)}”`);
  if (action.keys) label(x, y, action.keys.join(" + "));
}

function shape(parent, tag, attributes) {
  const node = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  parent.append(node);
  return node;
}
