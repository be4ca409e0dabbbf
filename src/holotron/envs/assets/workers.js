// Runs in every frame after gate.js: workers have no sockets, because nobody could hold their messages. Those with an
// address on the web are given a policy together with their script, which the browser keeps (Gate._harden). Those made
// of a text (blob:, data:) begin with this function instead, and so do the workers that they make.
(function tame(source) {
  'use strict';
  const inside = typeof source === 'string';
  if (inside) for (const name of ['WebSocket', 'WebSocketStream']) delete self[name];
  const Native = self.Worker;
  if (!Native) return;
  const bound = (method) => Function.prototype.call.bind(method);
  const getter = (owner, name) => bound(Object.getOwnPropertyDescriptor(owner, name).get);
  const prefix = ((text) => `(${text})(${JSON.stringify(text)});\n`)(inside ? source : Function.prototype.toString.call(tame));
  const {createObjectURL, revokeObjectURL} = URL, [address, Text, iterator] = [URL, Blob, Symbol.iterator];
  const {stringify} = JSON, {construct} = Reflect, code = encodeURIComponent, text = String;
  const protocol = getter(URL.prototype, 'protocol'), href = getter(URL.prototype, 'href'), size = getter(Blob.prototype, 'size');
  const split = bound(String.prototype.split), trusted = self.trustedTypes?.isScriptURL.bind(trustedTypes);
  const made = new Map(), blobOf = Map.prototype.get.bind(made), remember = Map.prototype.set.bind(made);
  const forget = Map.prototype.delete.bind(made);

  URL.createObjectURL = function (object) {
    const url = createObjectURL(object);
    try { size(object); remember(url, object); } catch { /* no text */ }
    return url;
  };
  URL.revokeObjectURL = function (url) {
    forget(text(url));
    revokeObjectURL(url);
  };
  // The browser goes through a list by functions that a page can replace; not through this one.
  const both = (one, other) => {
    let at = 0;
    const next = () => ({__proto__: null, done: at > 1, value: at++ ? other : one});
    return {__proto__: null, [iterator]: () => ({__proto__: null, next})};
  };
  const script = (one, other = '') => createObjectURL(new Text(both(one, other), {__proto__: null, type: 'text/javascript'}));
  const begun = (url, module) => {
    const known = blobOf(split(url, '#')[0]);
    if (protocol(new address(url)) === 'data:') {
      const first = (content) => `data:text/javascript,${code(content)}`;
      return first(module ? `import ${stringify(first(prefix))};import ${stringify(url)}` : `${prefix}importScripts(${stringify(url)})`);
    }
    if (!module) return known ? script(prefix, known) : script(prefix, `importScripts(${stringify(url)})`);
    return script(`import ${stringify(script(prefix))};`, `import ${stringify(known ? createObjectURL(known) : url)}`);
  };
  self.Worker = new Proxy(Native, {construct(target, given, as) {
    const {0: url, 1: options} = given, said = trusted?.(url) ? url : text(url);
    let full = null;
    try { full = new address(said, self.document?.baseURI ?? self.location.href); } catch { /* the browser's own error */ }
    const chosen = {__proto__: null, type: options?.type, name: options?.name, credentials: options?.credentials};
    const texts = full !== null && (protocol(full) === 'blob:' || protocol(full) === 'data:');
    const from = texts ? begun(href(full), text(chosen.type) === 'module') : said;
    return construct(target, {__proto__: null, 0: from, 1: chosen, length: 2}, as);
  }});
  Native.prototype.constructor = self.Worker;
})();
