// Runs in every frame before the page's own scripts, where a session has secrets. What goes over a WebSocket cannot be held
// by the browser, nor can the address it goes to. So each document gets a policy, which the browser itself keeps, and which
// frames and workers without an address of their own inherit: sockets to sites to which all secrets belong, and no others.
((allowed) => {
  'use strict';
  const policy = document.createElementNS('http://www.w3.org/1999/xhtml', 'meta');
  policy.httpEquiv = 'Content-Security-Policy';
  policy.content = allowed;
  const keep = () => {
    if (!document.head) return false;
    document.head.prepend(policy);
    policy.remove();  // it stays in force
    return true;
  };
  if (keep()) return;
  // Told of the head before any script of the page runs. Documents that have none, drawings for example, have no sockets.
  const waiting = new MutationObserver(() => {
    if (keep()) waiting.disconnect();
    else if (document.documentElement && !(document.documentElement instanceof HTMLElement)) delete window.WebSocket;
  });
  waiting.observe(document, {childList: true, subtree: true});
})(POLICY);
