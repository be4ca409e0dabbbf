// Runs in every frame before the page's own scripts, where requests are held for a person's answer: messages over open
// connections wait for it too, and what works outside every page, where nothing could be held, is not there.
//
// A page may put its own functions in the place of the browser's, so everything that is needed later is kept here first.
// The question itself is a request, which is held like all others and answered without leaving the browser: neither can
// a page change what it says, nor answer it, nor ask one of its own. A header shows whose it is, because pages can read
// addresses: in lists of what was loaded, in reports of their content policy.
(() => {
  'use strict';
  delete window.SharedWorker;
  delete Navigator.prototype.serviceWorker;
  for (const name of ['ServiceWorkerContainer', 'WebSocketStream', 'PushManager', 'BackgroundFetchManager', 'PresentationRequest'])
    delete window[name];

  const bound = (method) => Function.prototype.call.bind(method);
  const getter = (owner, name) => bound(Object.getOwnPropertyDescriptor(owner, name).get);
  const Native = WebSocket, {send, close} = Native.prototype, {construct} = Reflect, {iterator} = Symbol;
  const apply = bound(Function.prototype.apply), then = bound(Promise.prototype.then);
  const address = getter(Native.prototype, 'url'), state = getter(Native.prototype, 'readyState');
  const status = getter(Response.prototype, 'status'), slice = bound(String.prototype.slice);
  const includes = bound(String.prototype.includes);
  const own = self.origin.startsWith('http') ? self.origin : '', request = fetch.bind(window);
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

  // Asked at the page's own address or, where its content policy does not let it, at the socket's. Policies look at paths:
  // what is added to an address stands behind its.
  const here = `${own}/?&holotron-asks`;
  const there = (to) => `http${slice(to, 2)}${includes(to, '?') ? '' : '?'}&holotron-asks`;
  const unasked = () => {
    tell?.('unasked', '');
    return false;
  };

  // Whether a message may leave.
  const asked = (to, body, answer) => {
    const headers = {__proto__: null, 'X-Holotron': `HELD message ${to}`};
    const ask = (url, otherwise) => then(
      request(url, {__proto__: null, method: 'POST', body, headers, credentials: 'omit', mode: 'cors', cache: 'no-store'}),
      (response) => answer(status(response) === 200), otherwise);
    const elsewhere = () => ask(there(to), () => answer(unasked()));
    if (own) ask(here, elsewhere); else elsewhere();
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
  const method = (name, value) =>
    Object.defineProperty(Native.prototype, name, {configurable: false, writable: false, enumerable: true, value});
  method('send', function (message) {
    if (state(this) !== 1) return apply(send, this, {__proto__: null, 0: message, length: 1});  // the browser's own error
    let line = lineOf(this);
    if (!line) begin(this, line = {__proto__: null, first: null, last: null});
    const mine = {__proto__: null, socket: this, message: kept(message), free: null, next: null};
    if (line.first) line.last = line.last.next = mine; else line.first = line.last = mine;
    asked(address(this), mine.message, (free) => { mine.free = free; move(line); });
  });
  method('close', function () {  // without a reason and a number, which would be words as well
    return apply(close, this, {__proto__: null, length: 0});
  });
  if (!ASKS) return;

  // A socket is opened by a request with an address and words (protocols), which the browser does not hold. So it is asked
  // before; answered at once, because the page waits for its constructor: what may not be opened fails as if nobody were there.
  const Question = XMLHttpRequest, {open, send: put, setRequestHeader} = Question.prototype;
  const [prepare, submit, mark, answered] = [bound(open), bound(put), bound(setRequestHeader), getter(Question.prototype, 'status')];
  const Address = URL, href = getter(Address.prototype, 'href'), base = getter(Node.prototype, 'baseURI');
  const mayOpen = (to, words) => {
    const ask = (url) => {
      const question = new Question();
      prepare(question, 'POST', url, false);
      mark(question, 'X-Holotron', `HELD opening ${to}`);
      submit(question, words);
      return answered(question) === 200;
    };
    try { return ask(own ? here : there(to)); } catch { /* its content policy */ }
    try { return ask(there(to)); } catch { return unasked(); }
  };
  // The words once said, for the browser to read: its way through a list could be another one by then.
  const listed = (first) => {
    let at = first;
    const next = () => {
      const done = at === null, value = at?.word;
      at = at && at.next;
      return {__proto__: null, done, value};
    };
    return {__proto__: null, [iterator]: () => ({__proto__: null, next})};
  };
  const said = (given) => {
    const words = {__proto__: null, first: null, last: null, together: ''};
    const add = (word) => {
      const one = {__proto__: null, word: text(word), next: null};
      words.together += `${one.word}\n`;
      words.last = words.last ? words.last.next = one : words.first = one;
    };
    if (typeof given === 'object' && given !== null && given[iterator]) for (const word of given) add(word);
    else if (given !== undefined) add(given);
    return words;
  };
  const NOWHERE = 'wss://localhost:1/';  // a port to which browsers do not connect
  window.WebSocket = new Proxy(Native, {construct(target, given, as) {
    const wanted = text(given[0]);  // said once: it could be another one when the browser reads it again
    let full = null;
    try { full = href(new Address(wanted, base(document))); } catch { /* the browser's own error */ }
    if (full === null) return construct(target, {__proto__: null, 0: wanted, length: 1}, as);
    const words = said(given[1]), to = slice(full, 0, 4) === 'http' ? `ws${slice(full, 4)}` : full;
    const from = mayOpen(to, words.together) ? to : NOWHERE;
    return construct(target, {__proto__: null, 0: from, 1: listed(words.first), length: 2}, as);
  }});
  Native.prototype.constructor = window.WebSocket;
})();
