// The view: columns, filters, sorting and selection. The address keeps what differs from the default, so that it can be shared.

const headsOf = (section) => [...section.querySelectorAll('thead th')];
const phone = matchMedia('(max-width: 600px)');
const isMain = (head) => head.dataset.extra === undefined && !(phone.matches && head.dataset.key === 'family');
const filterFields = { find: 'value', family: 'value', class: 'value', only: 'checked' };

/** Show the columns with these keys; by default the main ones. The name is always shown. */
function showColumns(keys) {
  state.columns = keys;
  const section = sectionOf(state.boardIndex);
  const heads = headsOf(section);
  const shown = heads.map((head) => head.dataset.key === 'encoding' || (keys ? keys.includes(head.dataset.key) : isMain(head)));
  for (const row of section.querySelectorAll('thead tr, tr[data-row]'))
    [...row.children].forEach((cell, column) => (cell.hidden = !shown[column]));
  for (const cell of section.querySelectorAll('tr.class th')) cell.colSpan = shown.filter(Boolean).length;
  const boxes = heads.map((head, column) => {
    const box = make('input', { type: 'checkbox', onchange: onColumns });
    Object.assign(box, { checked: shown[column], disabled: head.dataset.key === 'encoding', value: head.dataset.key });
    return make('label', { class: 'check' }, box, head.dataset.label);
  });
  byId('column-boxes').replaceChildren(...boxes);
}

function onColumns(event) {
  showColumns([...byId('column-boxes').querySelectorAll('input:checked')].map((box) => box.value));
  byId('column-boxes').querySelector(`[value="${event.target.value}"]`).focus();
  saveView();
}

const presetColumns = { main: () => null, all: () => headsOf(sectionOf(state.boardIndex)).map((head) => head.dataset.key) };

function clearFilters() {
  for (const [name, field] of Object.entries(filterFields)) byId(name)[field] = field === 'checked' ? false : '';
  onFilter();
  byId('find').focus();
}

function onFilter() {
  filterRows();
  redrawPanels();
  saveView();
}

/** Write the view into the address, without an entry in the history. */
function saveView() {
  const view = new URLSearchParams();
  const section = sectionOf(state.boardIndex);
  if (state.boardIndex) view.set('suite', section.dataset.key);
  const sorted = section.querySelector('thead [aria-sort]');
  const order = sorted.getAttribute('aria-sort');
  if (sorted !== headsOf(section)[0] || order !== sorted.dataset.first) {
    view.set('sort', sorted.dataset.key);
    if (order !== sorted.dataset.first) view.set('order', order);
  }
  for (const [name, field] of Object.entries(filterFields)) if (byId(name)[field]) view.set(name, byId(name)[field]);
  if (byId('view').selectedIndex) view.set('view', byId('view').value);
  const main = headsOf(section).filter(isMain).map((head) => head.dataset.key);
  if (state.columns && String(state.columns) !== String(main)) view.set('columns', state.columns);
  if (String(selectedIds()) !== String([...state.board.selected].sort((a, b) => a - b))) {
    for (const id of selectedIds()) view.append('select', state.board.encodings[id].name);
    if (!selectedIds().length) view.set('select', '');
  }
  try {
    history.replaceState(null, '', String(view) ? `#${view}` : location.pathname);
  } catch {
    // some browsers refuse this for local files
  }
}

/** Show the view that the address describes; names that the board does not have are left out. */
function loadView() {
  const view = new URLSearchParams(location.hash.slice(1));
  for (const [name, field] of Object.entries(filterFields))
    byId(name)[field] = field === 'checked' ? view.has(name) : (view.get(name) ?? '');
  const wanted = [...byId('view').options].findIndex((option) => option.value === view.get('view'));
  byId('view').selectedIndex = Math.max(0, wanted);
  state.columns = view.get('columns')?.split(',') ?? null;
  const sections = [...document.querySelectorAll('.board')];
  const index = Math.max(0, sections.findIndex((section) => section.dataset.key === view.get('suite')));
  byId('suite').selectedIndex = index;
  showBoard(index, view.getAll('select'), view.has('select'));
  byId('class').value = view.get('class') ?? '';
  for (const field of [byId('class'), byId('family')]) if (field.selectedIndex < 0) field.selectedIndex = 0;
  const heads = headsOf(sections[index]);
  const column = Math.max(0, heads.findIndex((head) => head.dataset.key === view.get('sort')));
  sortBy(sections[index], column, view.get('order') === other[heads[column].dataset.first] ? view.get('order') : null);
  onFilter();
}

/** The table as shown, as CSV: numbers, and where a column has more than numbers, a column with the rest. */
function tableAsCsv() {
  const section = sectionOf(state.boardIndex);
  const rows = [...section.querySelectorAll('tr[data-row]')].filter((row) => !row.hidden);
  const columns = [['class', rows.map((row) => state.board.encodings[Number(row.dataset.row)].class)]];
  headsOf(section).forEach((head, column) => {
    if (head.hidden) return;
    const view = data.views[byId('view').selectedIndex];
    const title = head.dataset.task === undefined ? head.dataset.label : `${head.dataset.label}: ${view}`;
    const texts = rows.map((row) =>
      head.dataset.key === 'encoding' ? state.board.encodings[Number(row.dataset.row)].name : row.children[column].innerText,
    );
    const parts = texts.map((text) => text.trim().match(/^([≥<~]?) ?([\d,]*\.?\d+)(?![\d–])(.*)$/su));
    const plain = texts.every((text, i) => parts[i] || text.trim().length < 12) && parts.some(Boolean);
    if (!plain || head.dataset.key === 'encoding') return columns.push([title, texts.map((text) => text.trim())]);
    columns.push([title, parts.map((part, i) => (part ? part[2].replaceAll(',', '').replace(/^\./, '0.') : ''))]);
    const notes = parts.map((part, i) => (part ? part[1] + part[3] : texts[i]).replace(/\s+/g, ' ').trim());
    if (notes.some(Boolean)) columns.push([`${title} (note)`, notes]);
  });
  const quoted = (text) => {
    const inert = /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text; // no formula in a spreadsheet
    return /[",\r\n]/.test(inert) ? `"${inert.replaceAll('"', '""')}"` : inert;
  };
  const lines = [columns.map(([title]) => title), ...rows.map((_, i) => columns.map(([, texts]) => texts[i]))];
  return lines.map((line) => `${line.map(quoted).join(',')}\n`).join('');
}

function downloadCsv() {
  const address = URL.createObjectURL(new Blob([tableAsCsv()], { type: 'text/csv' }));
  make('a', { href: address, download: `lprime-${sectionOf(state.boardIndex).dataset.key}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** Connect the controls above the table. */
function startView() {
  byId('controls').addEventListener('submit', (event) => event.preventDefault());
  byId('find').addEventListener('input', onFilter);
  for (const name of ['family', 'class', 'only']) byId(name).addEventListener('change', onFilter);
  byId('view').addEventListener('change', (event) => {
    showView(event.target.selectedIndex);
    saveView();
  });
  byId('suite').addEventListener('change', (event) => {
    showBoard(Number(event.target.value));
    saveView();
  });
  for (const [name, keys] of Object.entries(presetColumns))
    byId(`columns-${name}`).addEventListener('click', () => {
      showColumns(keys());
      saveView();
    });
  for (const button of document.querySelectorAll('.clear')) button.addEventListener('click', clearFilters);
  byId('csv').addEventListener('click', downloadCsv);
  byId('columns').addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return;
    byId('columns').open = false;
    byId('columns').querySelector('summary').focus();
  });
  document.addEventListener('pointerdown', (event) => {
    if (!event.target.closest('#columns')) byId('columns').open = false;
  });
  addEventListener('hashchange', loadView);
}
