// The chosen, as text: chips with their colours, who beats whom, numbers by length, and where they come from.

function chips() {
  const places = chosen();
  const remove = (place) => () => {
    choose(place, false);
    changed('chosen');
    (find('chips').querySelector('button') ?? find('find')).focus();
  };
  const buttons = places.map((place) => {
    const { name, apart } = state.board.encodings[place];
    const chip = make('button', {
      type: 'button',
      class: 'chip',
      'aria-label': `Choose ${name} no longer`,
      onclick: remove(place),
    });
    chip.append(
      swatch(state.slots.get(place)),
      make('span', {}, name + (apart ? ' †' : '')),
      make('span', { 'aria-hidden': 'true' }, '×'),
    );
    chip.addEventListener('pointerenter', () => warm(place));
    chip.addEventListener('pointerleave', () => warm(null));
    return chip;
  });
  const offers = [
    ['Best six', () => best().slice(0, 6)],
    [`All in the table`, () => shown().slice(0, most)],
    ['None', () => []],
  ].map(([label, wanted]) => make('button', { type: 'button', class: 'offer', onclick: () => only(wanted()) }, label));
  const apart = places.some((place) => state.board.encodings[place].apart);
  const note = apart ? [make('span', { class: 'note' }, '† ranked apart')] : [];
  find('chips').replaceChildren(...buttons, ...note, make('span', { class: 'offers' }, 'Choose: ', ...offers));
}

/** Places in the order of the table as it stands. */
const shown = () =>
  [...sectionOf(state.place).querySelectorAll('tr[data-row]:not([hidden])')].map((row) => Number(row.dataset.row));
const best = () =>
  state.board.encodings.map((_, place) => place).filter((place) => !state.board.encodings[place].apart);

function only(places) {
  for (const place of [...state.slots.keys()]) if (!places.includes(place)) choose(place, false);
  for (const place of places) choose(place, true);
  changed('chosen');
}

function grid(caption, head, rows) {
  const top = make(
    'tr',
    {},
    ...head.map((text) => make('th', { scope: 'col' }, make('span', { class: 'name' }, text))),
  );
  const body = rows.map(([name, ...cells]) => make('tr', {}, name, ...cells));
  const table = make('table', {}, make('caption', {}, caption), make('thead', {}, top), make('tbody', {}, ...body));
  return make('div', { class: 'scroll', role: 'region', tabindex: 0, 'aria-label': caption }, table);
}

const rowHead = (slot, text) =>
  make('th', { scope: 'row' }, make('div', {}, swatch(slot), make('span', { class: 'name' }, text)));
const named = (place) => rowHead(state.slots.get(place), state.board.encodings[place].name);

const untested = 'Whether they are separated cannot be tested: single runs, or tables of their own';

/** Who beats whom: the probability of improvement, and whether the test separates the two. */
function beats() {
  const places = chosen().filter(
    (place) =>
      state.board.pairs[place].some(Boolean) || state.board.pairs.some((row, i) => i < place && row[place - i - 1]),
  );
  if (places.length < 2) {
    find('beats').replaceChildren(
      make('p', { class: 'note' }, 'Choose two encodings or more to see which of them beats which.'),
    );
    return;
  }
  const rows = places.map((a) => [named(a), ...places.map((b) => (a === b ? make('td', {}, '–') : beat(a, b)))]);
  const tested = places.some((a, i) => places.slice(i + 1).some((b) => state.board.pairs[a][b - a - 1][1] !== undefined));
  const separated = `the difference of their means is more than chance (p ≤ ${data.alpha}, corrected for all pairs)`;
  const caption = `How often a run of the row beats a run of the column. ${tested ? `✓ separated: ${separated}` : untested}.`;
  find('beats').replaceChildren(grid(caption, ['', ...places.map((place) => state.board.encodings[place].name)], rows));
}

function beat(a, b) {
  const [low, high] = a < b ? [a, b] : [b, a];
  const [better, p, verdict] = state.board.pairs[low][high - low - 1];
  const text = a < b ? better : share(Math.round(1000 - 1000 * Number(better)) / 1000);
  if (p === undefined) return make('td', { title: 'not tested: single runs, or different tables' }, text);
  const separated = verdict !== 0;
  const cell = make(
    'td',
    { class: separated ? 'separated' : null, title: `p = ${p}, ${separated ? 'separated' : 'not separated'}` },
    text + (separated ? ' ✓' : ''),
  );
  cell.style.setProperty('--share', Number(text));
  return cell;
}

/** Exact match by length, a table a task. */
function numbers() {
  const places = chosen();
  const tables = state.board.tasks.map((task, t) => {
    const rows = places.map((place) => {
      const { cells, views } = state.board.encodings[place];
      const found = cells[t] ? cells[t].mean : task.lengths.map(() => views[t][0][0]);
      return [named(place), ...found.map((text) => make('td', {}, text))];
    });
    if (task.chance) rows.push([rowHead(undefined, 'chance'), ...task.chance.map((text) => make('td', {}, text))]);
    const head = task.lengths.map((n) => (n === task.base ? `${n} = L` : String(n)));
    return grid(`${task.title}: exact match by test length, mean over seeds`, ['', ...head], rows);
  });
  keepOpen(find('numbers'), places.length ? [fold('Numbers by length', tables)] : []);
}

/** Which seeds there are, said once where all tasks have the same. */
function seedsOf(cells) {
  const lists = cells.map((cell) => (cell ? cell.seeds.join(', ') : 'none'));
  if (new Set(lists).size === 1) return `Seeds on every task: ${lists[0]}`;
  return `Seeds: ${lists.map((list, t) => `${state.board.tasks[t].name} ${list}`).join('; ')}`;
}

/** What each is, and how to make a number of it again. */
function sources() {
  const items = chosen().map((place) => {
    const { name, family, paper, settings, class: ranked, cells } = state.board.encodings[place];
    const about = [paper, family && `family ${family}`, settings && `settings ${settings}`, ranked]
      .filter(Boolean)
      .join('; ');
    const first = cells.find(Boolean);
    const again = first ? make('p', {}, make('code', {}, first.again), ' and so with other tasks and seeds') : '';
    const head = make('h4', {}, swatch(state.slots.get(place)), name);
    return make('div', {}, head, make('p', {}, about), make('p', {}, seedsOf(cells)), again);
  });
  keepOpen(find('sources'), items.length ? [fold('What they are, and the command that runs one again', items)] : []);
}

const fold = (title, children) => make('details', {}, make('summary', {}, title), ...children);

/** Replace content, with what was folded open still open. */
function keepOpen(place, content) {
  const open = [...place.children].map((each) => each.open);
  content.forEach((each, i) => (each.open = Boolean(open[i])));
  place.replaceChildren(...content);
}
