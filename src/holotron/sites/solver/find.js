// Where the text of an answer stands in the element at a point: the middle of it, or of all that is written there.
(([x, y, wanted]) => {
  const here = document.elementFromPoint(x, y)?.closest('[data-e]');
  if (!here) return 'null';
  const middle = (range) => {
    const r = [...range.getClientRects()].find((r) => r.width && r.height);
    if (!r) return null;
    const spot = [Math.round(r.left + r.width / 2), Math.round(r.top + r.height / 2)];
    return spot[0] >= 0 && spot[0] < innerWidth && spot[1] >= 0 && spot[1] < innerHeight ? spot : null;
  };
  const walk = document.createTreeWalker(here, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  while (walk.nextNode()) {
    const at = walk.currentNode.data.indexOf(wanted);
    if (at < 0) continue;
    range.setStart(walk.currentNode, at);
    range.setEnd(walk.currentNode, at + wanted.length);
    return JSON.stringify(middle(range));
  }
  range.selectNodeContents(here);
  return JSON.stringify(middle(range));
})(ASKED)
