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
  // a paste the session places its text into the browser's.
  let placing = null;
  window.__holotron_place = (text) => {
    placing = text;
    document.execCommand('copy');
    placing = null;
  };
  const selected = () => {
    const element = document.activeElement;
    if (element && typeof element.selectionStart === 'number')
      return element.value.slice(element.selectionStart, element.selectionEnd);
    return String(getSelection());
  };
  for (const type of ['copy', 'cut']) {
    addEventListener(type, (event) => {
      if (placing === null) return tell('copied', selected());
      event.clipboardData.setData('text/plain', placing);
      event.preventDefault();
      event.stopImmediatePropagation();
    }, {capture: true});
    addEventListener(type, (event) => {
      if (event.defaultPrevented) tell('copied', event.clipboardData.getData('text/plain'));
    });
  }
  if (navigator.clipboard) {
    navigator.clipboard.writeText = async (text) => tell('copied', String(text));
  }
})();
