// Shared by all parts: the data, small helpers, and the selected encodings.

const data = JSON.parse(document.getElementById('data').textContent);
const byId = (id) => document.getElementById(id);
const lineStyles = { dashes: [[], [7, 3], [2, 2.5]], colours: 7 };
const maxSelected = lineStyles.colours * lineStyles.dashes.length; // more lines would look alike

// The visible board, its selected encodings (id → slot of a line style) and the one under the pointer. An encoding's id is
// its index in `board.encodings`.
const state = {
  board: data.boards[0],
  boardIndex: 0,
  slots: new Map(),
  shown: new Set(), // encodings that the filters leave in the table
  columns: null, // keys of the columns shown; null: the main ones
  hovered: null,
  listeners: [],
};

function notify(event) {
  for (const listener of state.listeners) listener(event);
}

/** Select or deselect an encoding; false if no line style is left for it. */
function select(id, on) {
  if (!on) state.slots.delete(id);
  else if (!state.slots.has(id)) {
    const taken = new Set(state.slots.values());
    const free = [...Array(maxSelected).keys()].find((slot) => !taken.has(slot));
    if (free === undefined) {
      announce(`At most ${maxSelected} encodings can be selected.`);
      return false;
    }
    state.slots.set(id, free);
  }
  return true;
}

/** Selected encodings in the order of the tables. */
const selectedIds = () => [...state.slots.keys()].sort((a, b) => a - b);

function hover(id) {
  if (state.hovered === id) return;
  state.hovered = id;
  notify('hover');
}

/** Create an element. Strings become text, never markup. */
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

/** A short line in the style of a slot. */
function swatch(slot) {
  const element = make('span', { class: 'swatch', 'aria-hidden': 'true' });
  if (slot !== undefined) {
    const line = ['solid', 'dashed', 'dotted'][Math.floor(slot / lineStyles.colours)];
    element.style.borderTop = `3px ${line} var(--${colourName(slot)})`;
  }
  return element;
}

const colourName = (slot) => `line-${slot % lineStyles.colours}`;

const dashes = (slot) => lineStyles.dashes[Math.floor(slot / lineStyles.colours)];

const colours = new Map(); // of the current theme; getComputedStyle would take most of the drawing time

function colour(name) {
  if (!colours.has(name))
    colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return colours.get(name);
}

/** Draw connected lines through points on a canvas. */
function drawLine(ctx, points, strokeStyle, lineWidth = 1, dash = []) {
  Object.assign(ctx, { strokeStyle, lineWidth });
  ctx.setLineDash(dash);
  ctx.beginPath();
  for (const [x, y] of points) ctx.lineTo(x, y);
  ctx.stroke();
}

/** Decimals as Python prints them: ties, which are odd multiples of 2^-(digits + 1), round to even. */
function pythonFixed(value, digits) {
  const tie = (value * 2 ** (digits + 1)) % 2 === 1;
  const low = Math.floor(value * 10 ** digits);
  return (tie ? (low + (low % 2)) / 10 ** digits : value).toFixed(digits);
}

/** A share as the board prints it, without its leading zero. */
const share = (value) => pythonFixed(value, 3).replace(/^0/, '');

/** A multiple of L with up to two decimals. */
const times = (value) => pythonFixed(value, 2).replace(/\.?0+$/, '');

/** Position of a length on the axis: logarithmic, and half as wide up to L, where there is least to see. */
function position(task, length) {
  const octaves = Math.log2(length / task.base);
  return octaves < 0 ? octaves / 2 : octaves;
}

function announce(text) {
  byId('live').textContent = text;
}
