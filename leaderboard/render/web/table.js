// The table: sort by its headings, filter its rows, select by its checkboxes.

const other = { ascending: 'descending', descending: 'ascending' };

/** Turn headings into buttons and give rows a checkbox. */
function makeInteractive(section) {
  const heads = headsOf(section);
  heads.forEach((head, column) => {
    const label = head.textContent;
    const hint = head.title;
    head.replaceChildren(
      make('button', { type: 'button', title: hint, onclick: () => onSort(section, column) }, label),
    );
    head.removeAttribute('title');
    head.dataset.label = label;
  });
  heads[0].setAttribute('aria-sort', 'ascending');
  for (const row of section.querySelectorAll('tr[data-row]')) {
    const id = Number(row.dataset.row);
    const name = row.querySelector('th');
    const label = `Select ${data.boards[section.dataset.board].encodings[id].name}`;
    const box = make('input', { type: 'checkbox', 'aria-label': label, onchange: (event) => onCheckbox(event.target, id) });
    name.replaceChildren(make('div', { class: 'pick' }, make('label', {}, box, swatch()), name.firstElementChild));
    row.addEventListener('click', (event) => {
      if (event.target.closest('a, label, input') || String(getSelection())) return;
      box.checked = !box.checked;
      onCheckbox(box, id);
    });
    row.addEventListener('pointerenter', () => hover(id));
    row.addEventListener('pointerleave', () => hover(null));
    row.addEventListener('focusin', () => hover(id));
    row.addEventListener('focusout', () => hover(null));
  }
}

function onCheckbox(box, id) {
  if (!select(id, box.checked)) box.checked = false;
  notify('selection');
}

/** Sort by a column, best first; a second time in the reverse order. */
function onSort(section, column) {
  const before = headsOf(section)[column].getAttribute('aria-sort');
  sortBy(section, column, before && other[before]);
  saveView();
}

/** Sort each ranking class by a column, by default best first. */
function sortBy(section, column, wanted) {
  const heads = headsOf(section);
  const head = heads[column];
  const order = wanted ?? head.dataset.first;
  heads.forEach((each) => each.removeAttribute('aria-sort'));
  head.setAttribute('aria-sort', order);
  for (const body of section.querySelectorAll('tbody')) {
    const rows = [...body.querySelectorAll('tr[data-row]')];
    const sorted = rows.map((row) => ({ row, id: Number(row.dataset.row), key: sortKey(row.children[column]) }));
    sorted.sort((a, b) => compareKeys(a.key, b.key, order === 'ascending' ? 1 : -1) || a.id - b.id);
    body.append(...sorted.map(({ row }) => row));
  }
}

function sortKey(cell) {
  const value = cell.dataset.value;
  if (value === undefined) return null;
  return value !== '' && Number.isFinite(Number(value)) && cell.tagName === 'TD' ? Number(value) : value;
}

/** Missing values come last in both orders. */
function compareKeys(a, b, sign) {
  if (a === null || b === null) return (a === null) - (b === null);
  if (typeof a === 'number' && typeof b === 'number') return sign * (a - b);
  return sign * (String(a) < String(b) ? -1 : String(a) > String(b) ? 1 : 0);
}

/** Hide rows that do not match the filters, and count the rest. */
function filterRows() {
  const words = byId('find').value.toLowerCase().split(/\s+/).filter(Boolean);
  const family = byId('family').value;
  const only = byId('only').checked;
  const wanted = byId('class').value;
  const section = sectionOf(state.boardIndex);
  state.shown.clear();
  for (const body of section.querySelectorAll('tbody')) {
    let any = false;
    for (const row of body.querySelectorAll('tr[data-row]')) {
      const id = Number(row.dataset.row);
      const encoding = state.board.encodings[id];
      const text = `${encoding.name} ${encoding.family} ${encoding.source} ${encoding.class}`.toLowerCase();
      row.hidden = !(
        words.every((word) => text.includes(word)) &&
        (!family || encoding.family === family) &&
        (!wanted || encoding.class === wanted) &&
        (!only || state.slots.has(id))
      );
      any = any || !row.hidden;
      if (!row.hidden) state.shown.add(id);
    }
    body.hidden = !any;
  }
  const count = `${state.shown.size} of ${state.board.encodings.length} encodings`;
  if (byId('count').value !== count) byId('count').value = count;
  byId('clear').hidden = !(words.length || family || wanted || only);
  byId('no-curves').hidden = state.shown.size > 0;
}

/** Show a view (score, reach, …) in the task columns. */
function showView(which) {
  const section = sectionOf(state.boardIndex);
  const heads = headsOf(section);
  heads.forEach((head, column) => {
    if (head.dataset.task === undefined) return;
    const task = Number(head.dataset.task);
    head
      .querySelector('button')
      .replaceChildren(head.dataset.label, ...(which ? [make('small', {}, data.views[which])] : []));
    for (const row of section.querySelectorAll('tr[data-row]')) {
      const [text, value] = state.board.encodings[Number(row.dataset.row)].views[task][which] ?? ['–'];
      const cell = row.children[column];
      cell.textContent = text;
      if (value === undefined) delete cell.dataset.value;
      else cell.dataset.value = value;
      paintCell(cell);
    }
    const order = head.getAttribute('aria-sort');
    if (order) {
      sortBy(section, column, order); // same order, by the new numbers
    }
  });
}

/** Heat map: colour a task's cell by its value. */
function paintCell(cell) {
  if (cell.dataset.value !== undefined) cell.style.setProperty('--share', cell.dataset.value);
  else cell.style.removeProperty('--share');
}

/** Update checkboxes and swatches to the selection. */
function markSelected() {
  for (const row of sectionOf(state.boardIndex).querySelectorAll('tr[data-row]')) {
    const slot = state.slots.get(Number(row.dataset.row));
    row.classList.toggle('on', slot !== undefined);
    row.querySelector('input').checked = slot !== undefined;
    row.querySelector('.swatch').replaceWith(swatch(slot));
  }
}

const sectionOf = (index) => document.querySelector(`[data-board="${index}"]`);
