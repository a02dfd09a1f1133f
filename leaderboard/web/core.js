// What every part shares: the data, small helpers, and which encodings are chosen.

const data = JSON.parse(document.getElementById('data').textContent);
const find = (id) => document.getElementById(id);
const shape = { dashes: [[], [7, 3], [2, 2.5]], colours: 7 };
const most = shape.colours * shape.dashes.length; // more lines cannot be told apart

// The board that is shown, its chosen encodings (place → slot of a style) and the one that the pointer is on.
const state = { board: data.boards[0], place: 0, slots: new Map(), hot: null, listeners: [] };

function changed(what) {
  for (const listener of state.listeners) listener(what);
}

/** Choose an encoding, or choose it no longer; false if there is no style left for it. */
function choose(place, on) {
  if (!on) state.slots.delete(place);
  else if (!state.slots.has(place)) {
    const taken = new Set(state.slots.values());
    const free = [...Array(most).keys()].find((slot) => !taken.has(slot));
    if (free === undefined) {
      say(`At most ${most} encodings at a time.`);
      return false;
    }
    state.slots.set(place, free);
  }
  return true;
}

/** Chosen encodings in the order of the tables. */
const chosen = () => [...state.slots.keys()].sort((a, b) => a - b);

function warm(place) {
  if (state.hot === place) return;
  state.hot = place;
  changed('hot');
}

/** An element; text only ever becomes text. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** A piece of line in the style of a slot. */
function swatch(slot) {
  const found = make('span', { class: 'swatch', 'aria-hidden': 'true' });
  if (slot !== undefined) {
    const line = ['solid', 'dashed', 'dotted'][Math.floor(slot / shape.colours)];
    found.style.borderTop = `3px ${line} ${colourName(slot)}`;
  }
  return found;
}

const colourName = (slot) => `var(--line-${slot % shape.colours})`;

const colours = new Map(); // of the look that is on; asking the browser each time takes most of the time of a drawing

function colour(name) {
  if (!colours.has(name))
    colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return colours.get(name);
}

/** Decimals as Python prints them: a tie, which only an odd multiple of 2^-(digits + 1) is, goes to the even side. */
function fixed(value, digits) {
  const tie = (value * 2 ** (digits + 1)) % 2 === 1;
  const low = Math.floor(value * 10 ** digits);
  return (tie ? (low + (low % 2)) / 10 ** digits : value).toFixed(digits);
}

/** A share as the board prints it, without its leading zero. */
const share = (value) => fixed(value, 3).replace(/^0/, '');

/** A multiple of L with up to two decimals. */
const times = (value) => fixed(value, 2).replace(/\.?0+$/, '');

/** A place on the axis: logarithmic, and half as wide up to L, where there is the least to see. */
function position(task, length) {
  const octaves = Math.log2(length / task.base);
  return octaves < 0 ? octaves / 2 : octaves;
}

function say(text) {
  find('live').textContent = text;
}
