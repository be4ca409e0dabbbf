// Runs in every frame of every page before the page's own scripts: closes the way past the proxy, draws drop-down lists
// inside the page (the browser's own are outside it, where an agent's clicks do not arrive), and keeps clipboards apart.
(() => {
  'use strict';
  for (const name of ['RTCPeerConnection', 'webkitRTCPeerConnection', 'RTCDataChannel', 'WebTransport'])
    delete window[name];  // these talk UDP, which no proxy sees

  const tell = (kind, text) => window.__holotron_tell?.(kind, text);

  // Drop-down lists become part of the page. The caret does not blink, so equal pages give equal screenshots.
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(`
    select:not([multiple], [size]), select:not([multiple], [size])::picker(select) {
      appearance: base-select !important; }
    :root { caret-animation: manual; }`);
  document.adoptedStyleSheets.push(sheet);
  const attachShadow = Element.prototype.attachShadow;
  Element.prototype.attachShadow = function (options) {
    const root = attachShadow.call(this, options);
    root.adoptedStyleSheets.push(sheet);
    return root;
  };

  // Each session has its own clipboard; the browser has one for all. What is copied is told to the session, and before
  // a paste the session places its text into the browser's, by functions that a page cannot put others in the place of.
  const bound = (method) => Function.prototype.call.bind(method);
  const content = bound(Object.getOwnPropertyDescriptor(ClipboardEvent.prototype, 'clipboardData').get);
  const [command, put] = [bound(Document.prototype.execCommand), bound(DataTransfer.prototype.setData)];
  const [prevent, stop] = [bound(Event.prototype.preventDefault), bound(Event.prototype.stopImmediatePropagation)];
  const listen = addEventListener.bind(window);
  let placing = null, placed = false;
  const place = (event) => {
    if (placing === null) return;
    put(content(event), 'text/plain', placing);
    prevent(event);
    stop(event);
    placed = true;
  };
  Object.defineProperty(window, '__holotron_place', {value: (text) => {
    [placing, placed] = [text, false];
    listen('copy', place, {__proto__: null, capture: true});  // once more: a page that is written anew has lost it
    command(document, 'copy');
    placing = null;
    return placed;
  }});
  listen('copy', place, {capture: true});
  const selected = () => {
    const element = document.activeElement;
    if (element && typeof element.selectionStart === 'number')
      return element.value.slice(element.selectionStart, element.selectionEnd);
    return String(getSelection());
  };
  for (const type of ['copy', 'cut']) {
    addEventListener(type, () => tell('copied', selected()), {capture: true});
    addEventListener(type, (event) => {
      if (event.defaultPrevented) tell('copied', event.clipboardData.getData('text/plain'));
    });
  }
  if (navigator.clipboard) {
    navigator.clipboard.writeText = async (text) => tell('copied', String(text));
  }
})();
