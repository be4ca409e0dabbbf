// Runs in every frame before the page's own scripts, where a session has secrets. Remembers which text is painted into
// canvases and films, and whether something is that cannot be known; hands what the browser says of a field to the agent
// as a note, because the browser writes it over the page, where nothing can be blanked.
(() => {
  'use strict';
  const MOST = 3000, LONGEST = 4000;
  const texts = new Set(), rasters = new Set();
  let last = '', unknown = false;
  const remember = (text) => {
    text = String(text);
    last = (last + text).slice(-LONGEST);  // letter by letter
    if (texts.size < MOST) texts.add(text.slice(0, LONGEST)); else unknown = unknown || !texts.has(text);
  };
  const before = (owner, name, look) => {
    const native = owner?.prototype?.[name];
    if (!native) return;
    owner.prototype[name] = {[name](...values) {
      try { look(this, ...values); } catch { unknown = true; }
      return Reflect.apply(native, this, values);
    }}[name];
  };
  const doubt = () => { unknown = true; };
  for (const pen of [window.CanvasRenderingContext2D, window.OffscreenCanvasRenderingContext2D]) {
    before(pen, 'fillText', (_, text) => remember(text));
    before(pen, 'strokeText', (_, text) => remember(text));
    before(pen, 'putImageData', doubt);
    before(pen, 'drawElementImage', doubt);
    before(pen, 'drawImage', (_, source) => {
      const known = source instanceof HTMLCanvasElement || source instanceof OffscreenCanvas ||
        (source instanceof HTMLImageElement && /^https?:/.test(source.currentSrc) && !/\.svg/i.test(source.currentSrc));
      if (!known) unknown = true;
    });
  }
  for (const canvas of [window.HTMLCanvasElement, window.OffscreenCanvas]) {
    before(canvas, 'getContext', (_, kind) => { if (String(kind).toLowerCase() !== '2d') unknown = true; });
    before(canvas, 'transferControlToOffscreen', doubt);
  }
  if (window.VTTCue) {
    const {set, ...rest} = Object.getOwnPropertyDescriptor(VTTCue.prototype, 'text');
    Object.defineProperty(VTTCue.prototype, 'text', {...rest, set(text) { remember(text); Reflect.apply(set, this, [text]); }});
    window.VTTCue = new Proxy(VTTCue, {construct(native, values, target) {
      remember(values[2]);
      return Reflect.construct(native, values, target);
    }});
  }
  const {createObjectURL} = URL;
  URL.createObjectURL = (source) => {
    const url = Reflect.apply(createObjectURL, URL, [source]);
    if (/^image\/(png|jpe?g|gif|webp|avif|bmp)$/.test(source?.type ?? '') && rasters.size < MOST) rasters.add(url);
    return url;
  };
  const cues = () => [...document.querySelectorAll('video')].flatMap((film) => [...film.textTracks])
    .flatMap((track) => [...(track.activeCues ?? [])]).map((cue) => cue.text ?? '');
  Object.defineProperty(window, '__holotron_drawn', {value: () => JSON.stringify(
    {texts: [...texts, ...cues(), last].join('\n'), unknown, rasters: [...rasters]})});

  // Between two states of a page the browser paints a picture of the first one. It is left out.
  for (const owner of [Document, Element]) {
    const native = owner.prototype.startViewTransition;
    if (native) owner.prototype.startViewTransition = function startViewTransition(...values) {
      const transition = Reflect.apply(native, this, values);
      transition.skipTransition();
      return transition;
    };
  }
  for (const type of ['pagereveal', 'pageswap'])
    addEventListener(type, (event) => event.viewTransition?.skipTransition(), {capture: true});

  addEventListener('invalid', (event) => {
    const field = event.target;
    event.preventDefault();
    window.__holotron_tell?.('invalid', String(field.validationMessage).slice(0, LONGEST));
    if (!document.activeElement?.matches?.(':invalid')) field.focus();
  }, {capture: true});
})();
