// Runs in every frame before the page's own scripts, where requests are held for a person's answer: messages over open
// connections wait for it too, and what works outside every page, where nothing could be held, is not there.
//
// A page may put its own functions in the place of the browser's, so everything that is needed later is kept here first.
// The question itself is a request, which is held like all others and answered without leaving the browser: neither can
// a page change what it says, nor answer it.
(() => {
  'use strict';
  delete window.SharedWorker;
  delete Navigator.prototype.serviceWorker;
  for (const name of ['ServiceWorkerContainer', 'WebSocketStream', 'PushManager', 'BackgroundFetchManager', 'PresentationRequest'])
    delete window[name];

  const bound = (method) => Function.prototype.call.bind(method);
  const getter = (owner, name) => bound(Object.getOwnPropertyDescriptor(owner, name).get);
  const {send} = WebSocket.prototype, apply = bound(Function.prototype.apply), then = bound(Promise.prototype.then);
  const address = getter(WebSocket.prototype, 'url'), state = getter(WebSocket.prototype, 'readyState');
  const status = getter(Response.prototype, 'status'), slice = bound(String.prototype.slice);
  const own = self.origin.startsWith('http') ? self.origin : '', request = fetch.bind(window), code = encodeURIComponent;
  const tell = window.__holotron_tell;

  // What is sent is what was asked about, even if the page changes it meanwhile.
  const Bytes = Uint8Array, text = String, {isView} = ArrayBuffer, arrays = Object.getPrototypeOf(Bytes.prototype);
  const [ofArray, ofView] = [arrays, DataView.prototype].map((owner) =>
    ['buffer', 'byteOffset', 'byteLength'].map((name) => getter(owner, name)));
  const length = getter(ArrayBuffer.prototype, 'byteLength'), size = getter(Blob.prototype, 'size');
  const kind = getter(arrays, Symbol.toStringTag);  // of arrays; views and buffers have none
  const is = (what, value) => { try { what(value); return true; } catch { return false; } };
  const kept = (message) => {
    if (typeof message === 'string' || is(size, message)) return message;
    if (isView(message)) {
      const of = kind(message) === undefined ? ofView : ofArray;
      return new Bytes(new Bytes(of[0](message), of[1](message), of[2](message)));
    }
    return is(length, message) ? new Bytes(new Bytes(message)) : text(message);
  };

  // Whether one may leave: asked at the page's own address or, where its content policy does not let it, at the socket's.
  const asked = (to, body, answer) => {
    const ask = (url, otherwise) => then(
      request(`${url}&HELD`, {__proto__: null, method: 'POST', body, credentials: 'omit', mode: 'cors', cache: 'no-store'}),
      (response) => answer(status(response) === 200), otherwise);
    const nowhere = () => {
      tell?.('unasked', '');
      answer(false);
    };
    const there = () => ask(`http${slice(to, 2)}`, nowhere);
    if (own) ask(`${own}/?to=${code(to)}`, there); else there();
  };

  // Messages leave in the order in which they were sent. Those of an unanswered or refused one are not sent at all.
  const lines = new WeakMap(), lineOf = WeakMap.prototype.get.bind(lines), begin = WeakMap.prototype.set.bind(lines);
  const move = (line) => {
    while (line.first && line.first.free !== null) {
      const {socket, message, free} = line.first;
      line.first = line.first.next;
      if (free && state(socket) === 1) apply(send, socket, {__proto__: null, 0: message, length: 1});
    }
  };
  Object.defineProperty(WebSocket.prototype, 'send', {configurable: false, writable: false, enumerable: true,
    value: function (message) {
      if (state(this) !== 1) return apply(send, this, {__proto__: null, 0: message, length: 1});  // the browser's own error
      let line = lineOf(this);
      if (!line) begin(this, line = {__proto__: null, first: null, last: null});
      const mine = {__proto__: null, socket: this, message: kept(message), free: null, next: null};
      if (line.first) line.last = line.last.next = mine; else line.first = line.last = mine;
      asked(address(this), mine.message, (free) => { mine.free = free; move(line); });
    }});
})();
