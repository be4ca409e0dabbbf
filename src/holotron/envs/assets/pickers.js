// Runs in every frame of every page, after page.js. The browser draws its pickers of dates and colours outside the page,
// where they appear on screenshots but clicks do not arrive. Dates get a calendar inside the page instead; the other
// kinds open nothing, and the agent is told what to write.
(() => {
  'use strict';
  const OTHERS = ['time', 'datetime-local', 'month', 'week', 'color'];
  const INDICATOR = 30;  // CSS pixels at the end of the field that hold the picker's button
  const openPicker = (input) => {
    if (input.type === 'date') showCalendar(input);
    else window.__holotron_tell?.('picker', input.type);
  };
  addEventListener('click', (event) => {
    const input = event.composedPath()[0];
    if (!(input instanceof HTMLInputElement) || input.disabled || input.readOnly) return;
    if (input.type !== 'date' && !OTHERS.includes(input.type)) return;
    const {left, right} = input.getBoundingClientRect();
    const atEnd = getComputedStyle(input).direction === 'rtl'
      ? event.clientX - left < INDICATOR : right - event.clientX < INDICATOR;
    if (!event.isTrusted || !(atEnd || input.type === 'color')) return;
    event.preventDefault();
    openPicker(input);
  }, {capture: true});
  const showPicker = HTMLInputElement.prototype.showPicker;
  HTMLInputElement.prototype.showPicker = function () {
    if (this.type === 'date' || OTHERS.includes(this.type)) openPicker(this);
    else showPicker.call(this);
  };

  const setValue = (input, value) => {
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(input, value);
    for (const type of ['input', 'change']) input.dispatchEvent(new Event(type, {bubbles: true}));
  };

  const sheet = new CSSStyleSheet();  // a page's content policy may forbid <style>
  sheet.replaceSync(`
    :host { all: initial; position: fixed; inset: auto; margin: 0; padding: 6px; border: 1px solid #888; width: 210px;
      background: #fff; color: #000; font: 12px sans-serif; box-shadow: 0 2px 8px #0004; }
    header, footer { display: flex; justify-content: space-between; align-items: center; height: 26px; }
    section { display: grid; grid-template-columns: repeat(7, 30px); text-align: center; line-height: 24px; }
    button { all: unset; cursor: pointer; text-align: center; line-height: 24px; min-width: 26px; border-radius: 3px; }
    button:hover { background: #e3ecfb; } button[disabled] { color: #aaa; } .chosen { background: #1a73e8; color: #fff; }`);

  let calendar = null;
  const hideCalendar = () => { calendar?.remove(); calendar = null; };

  const showCalendar = (input) => {
    hideCalendar();
    const host = calendar = document.createElement('div');
    const root = host.attachShadow({mode: 'closed'});
    root.adoptedStyleSheets.push(sheet);
    const iso = (date) => date.toISOString().slice(0, 10);
    const today = new Date();
    const current = input.valueAsDate ?? new Date(Date.UTC(today.getFullYear(), today.getMonth(), today.getDate()));
    let [year, month] = [current.getUTCFullYear(), current.getUTCMonth()];
    const button = (label, action, {name = '', disabled = false} = {}) => {
      const made = document.createElement('button');
      Object.assign(made, {textContent: label, className: name, disabled, onclick: action});
      return made;
    };
    const choose = (value) => { hideCalendar(); setValue(input, value); };
    const outside = (value) => (input.min && value < input.min) || (input.max && value > input.max);
    const draw = () => {
      const first = new Date(Date.UTC(year, month, 1));
      const turn = (months) => () => {
        [year, month] = [new Date(Date.UTC(year, month + months)).getUTCFullYear(), (month + months + 12) % 12];
        draw();
      };
      const title = first.toLocaleDateString('en-US', {month: 'long', year: 'numeric', timeZone: 'UTC'});
      const header = document.createElement('header');
      header.append(button('‹', turn(-1)), title, button('›', turn(1)));
      const days = document.createElement('section');
      for (const day of 'SMTWTFS') days.append(Object.assign(document.createElement('b'), {textContent: day}));
      for (let gap = 0; gap < first.getUTCDay(); gap++) days.append(document.createElement('i'));
      for (let day = 1; day <= new Date(Date.UTC(year, month + 1, 0)).getUTCDate(); day++) {
        const value = iso(new Date(Date.UTC(year, month, day)));
        const name = value === input.value ? 'chosen' : '';
        days.append(button(String(day), () => choose(value), {name, disabled: Boolean(outside(value))}));
      }
      const footer = document.createElement('footer');
      const now = iso(new Date(Date.UTC(today.getFullYear(), today.getMonth(), today.getDate())));
      footer.append(button('Clear', () => choose('')), button('Today', () => choose(now)));
      root.replaceChildren(header, days, footer);
    };
    draw();
    host.popover = 'manual';
    document.documentElement.append(host);
    host.showPopover();
    const field = input.getBoundingClientRect(), own = host.getBoundingClientRect();
    const below = field.bottom + own.height <= innerHeight || field.top < own.height;
    host.style.left = `${Math.max(0, Math.min(field.left, innerWidth - own.width))}px`;
    host.style.top = `${Math.max(0, below ? Math.min(field.bottom, innerHeight - own.height) : field.top - own.height)}px`;
  };
  addEventListener('mousedown', (event) => {
    if (calendar && !event.composedPath().includes(calendar)) hideCalendar();
  }, {capture: true});
  addEventListener('keydown', (event) => { if (event.key === 'Escape') hideCalendar(); }, {capture: true});
})();
