// The selected encodings as text: chips with their colours, pairwise comparisons, numbers by length, and their sources.

function updateChips() {
  const ids = selectedIds();
  const remove = (id) => () => {
    select(id, false);
    notify('selection');
    (byId('chips').querySelector('button') ?? byId('find')).focus();
  };
  const buttons = ids.map((id) => {
    const { name, apart } = state.board.encodings[id];
    const chip = make('button', {
      type: 'button',
      class: 'chip',
      'aria-label': `Deselect ${name}`,
      onclick: remove(id),
    });
    chip.append(
      swatch(state.slots.get(id)),
      make('span', {}, name + (apart ? ' †' : '')),
      make('span', { 'aria-hidden': 'true' }, '×'),
    );
    chip.addEventListener('pointerenter', () => hover(id));
    chip.addEventListener('pointerleave', () => hover(null));
    return chip;
  });
  const presets = [
    ['Best six', () => bestIds().slice(0, 6)],
    ['All in the table', () => visibleIds().slice(0, maxSelected)],
    ['None', () => []],
  ].map(([label, wanted]) => make('button', { type: 'button', class: 'preset', onclick: () => selectOnly(wanted()) }, label));
  const apart = ids.some((id) => state.board.encodings[id].apart);
  const note = apart ? [make('span', { class: 'note' }, '† ranked apart')] : [];
  byId('chips').replaceChildren(...buttons, ...note, make('span', { class: 'presets' }, 'Select: ', ...presets));
}

/** The visible encodings in the current order of the table. */
const visibleIds = () =>
  [...sectionOf(state.boardIndex).querySelectorAll('tr[data-row]:not([hidden])')].map((row) => Number(row.dataset.row));
const bestIds = () =>
  state.board.encodings.map((_, id) => id).filter((id) => !state.board.encodings[id].apart);

function selectOnly(ids) {
  for (const id of [...state.slots.keys()]) if (!ids.includes(id)) select(id, false);
  for (const id of ids) select(id, true);
  notify('selection');
}

function scrollTable(caption, head, rows) {
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
const encodingHead = (id) => rowHead(state.slots.get(id), state.board.encodings[id].name);

const untested = 'Separation cannot be tested: single runs';

/** All pairs: the probability of improvement, and whether the test separates the two. */
function updatePairs() {
  const ids = selectedIds().filter(
    (id) =>
      state.board.pairs[id].some(Boolean) || state.board.pairs.some((row, i) => i < id && row[id - i - 1]),
  );
  if (ids.length < 2) {
    byId('pairs').replaceChildren(
      make('p', { class: 'note' }, 'Select two or more encodings to compare them in pairs.'),
    );
    return;
  }
  const rows = ids.map((a) => [encodingHead(a), ...ids.map((b) => (a === b ? make('td', {}, '–') : pairCell(a, b)))]);
  const tested = ids.some((a, i) => ids.slice(i + 1).some((b) => state.board.pairs[a][b - a - 1][1] !== undefined));
  const separated = `the difference of their mean scores is significant (p ≤ ${data.alpha}, corrected for all pairs)`;
  const caption = `Probability that a run of the row beats a run of the column on the same task. ${tested ? `✓ separated: ${separated}` : untested}.`;
  byId('pairs').replaceChildren(scrollTable(caption, ['', ...ids.map((id) => state.board.encodings[id].name)], rows));
}

function pairCell(a, b) {
  const [low, high] = a < b ? [a, b] : [b, a];
  const [better, p, verdict] = state.board.pairs[low][high - low - 1];
  const text = a < b ? better : share(Math.round(1000 - 1000 * Number(better)) / 1000);
  if (p === undefined) return make('td', { title: 'not tested: single runs' }, text);
  const separated = verdict !== 0;
  const cell = make(
    'td',
    { class: separated ? 'separated' : null, title: `p = ${p}, ${separated ? 'separated' : 'not separated'}` },
    text + (separated ? ' ✓' : ''),
  );
  cell.style.setProperty('--share', Number(text));
  return cell;
}

/** Exact match by length, one table per task. */
function updateNumbers() {
  const ids = selectedIds();
  const tables = state.board.tasks.map((task, t) => {
    const rows = ids.map((id) => {
      const { cells, views } = state.board.encodings[id];
      const means = cells[t] ? cells[t].mean : task.lengths.map(() => views[t][0][0]);
      return [encodingHead(id), ...means.map((text) => make('td', {}, text))];
    });
    if (task.chance) rows.push([rowHead(undefined, 'chance'), ...task.chance.map((text) => make('td', {}, text))]);
    const head = task.lengths.map((n) => (n === task.base ? `${n} = L` : String(n)));
    return scrollTable(`${task.title}: exact match by test length, mean over seeds`, ['', ...head], rows);
  });
  keepOpen(byId('numbers'), ids.length ? [detailsElement('Numbers by length', tables)] : []);
}

/** The seeds, listed once if all tasks have the same. */
function seedsOf(cells) {
  const lists = cells.map((cell) => (cell ? cell.seeds.join(', ') : 'none'));
  if (new Set(lists).size === 1) return `Seeds on every task: ${lists[0]}`;
  return `Seeds: ${lists.map((list, t) => `${state.board.tasks[t].name} ${list}`).join('; ')}`;
}

/** What each encoding is, and how to reproduce a number of it. */
function updateSources() {
  const items = selectedIds().map((id) => {
    const { name, family, paper, settings, source, lengths, class: ranked, cells } = state.board.encodings[id];
    const set = [settings && `settings ${settings}`, lengths && `length settings ${lengths}`];
    const about = [paper, `source ${source}`, family && `family ${family}`, ...set, ranked]
      .filter(Boolean)
      .join('; ');
    const first = cells.find(Boolean);
    const again = first ? make('p', {}, make('code', {}, first.command), '; likewise for other tasks and seeds') : '';
    const page = sectionOf(state.boardIndex).querySelector(`tr[data-row="${id}"] a.name`);
    const head = make('h4', {}, swatch(state.slots.get(id)), page ? make('a', { href: page.getAttribute('href') }, name) : name);
    return make('div', {}, head, make('p', {}, about), make('p', {}, seedsOf(cells)), again);
  });
  keepOpen(byId('sources'), items.length ? [detailsElement('Descriptions, and the command to reproduce a run', items)] : []);
}

const detailsElement = (title, children) => make('details', {}, make('summary', {}, title), ...children);

/** Replace the children of an element; those that were open stay open. */
function keepOpen(parent, content) {
  const open = [...parent.children].map((each) => each.open);
  content.forEach((each, i) => (each.open = Boolean(open[i])));
  parent.replaceChildren(...content);
}
