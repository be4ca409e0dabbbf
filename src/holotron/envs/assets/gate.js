// Runs in every frame before the page's own scripts, where requests are held for a person's answer: messages over open
// connections wait for it too, and what works outside every page, where nothing could be held, is not there.
(() => {
  'use strict';
  const ask = window.__holotron_message;
  delete window.__holotron_message;
  delete window.SharedWorker;
  delete Navigator.prototype.serviceWorker;
  for (const name of ['ServiceWorkerContainer', 'WebSocketStream', 'PushManager', 'BackgroundFetchManager', 'PresentationRequest'])
    delete window[name];

  // Messages leave in the order in which they were sent. Those of an unanswered or refused one are not sent at all.
  const {send} = WebSocket.prototype, {then} = Promise.prototype;
  const apply = Function.prototype.call.bind(Function.prototype.apply);
  const queues = new WeakMap(), last = WeakMap.prototype.get.bind(queues), remember = WeakMap.prototype.set.bind(queues);
  const address = Function.prototype.call.bind(Object.getOwnPropertyDescriptor(WebSocket.prototype, 'url').get);
  const state = Function.prototype.call.bind(Object.getOwnPropertyDescriptor(WebSocket.prototype, 'readyState').get);
  const text = String, done = Promise.resolve();
  Object.defineProperty(WebSocket.prototype, 'send', {configurable: false, writable: false, enumerable: true,
    value: function (message) {
      if (state(this) !== 1) return apply(send, this, [message]);  // the browser's own error
      const said = typeof message === 'string' ? message : '(binary data)';
      const before = last(this) ?? done;
      const mine = apply(then, before, [() => ask ? ask(address(this), text(said)) : false]);
      remember(this, apply(then, mine, [(free) => { if (free === true && state(this) === 1) apply(send, this, [message]); }, () => {}]));
    }});

  // Speculation rules make the browser open pages ahead of time, out of everybody's sight.
  new MutationObserver((changes) => {
    for (const {addedNodes} of changes)
      for (const node of addedNodes)
        if (node.localName === 'script' && node.type.toLowerCase() === 'speculationrules') node.remove();
  }).observe(document, {childList: true, subtree: true});
  const supports = HTMLScriptElement.supports;
  HTMLScriptElement.supports = (type) => type !== 'speculationrules' && supports.call(HTMLScriptElement, type);
})();
