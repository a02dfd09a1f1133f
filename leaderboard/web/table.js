// The table: sort by its headings, filter its rows, choose by its boxes.

/** Headings become buttons, and rows get a box to be chosen with. */
function enliven(section) {
  const heads = [...section.querySelectorAll('thead th')];
  heads.forEach((head, column) => {
    const label = head.textContent;
    const hint = head.title;
    head.replaceChildren(
      make('button', { type: 'button', title: hint, onclick: () => sortBy(section, column) }, label),
    );
    head.removeAttribute('title');
    if (head.dataset.task !== undefined) head.dataset.label = label;
  });
  heads[0].setAttribute('aria-sort', 'ascending');
  for (const row of section.querySelectorAll('tr[data-row]')) {
    const place = Number(row.dataset.row);
    const name = row.querySelector('th');
    const box = make('input', { type: 'checkbox', onchange: (event) => tick(event.target, place) });
    name.replaceChildren(make('label', {}, box, swatch(), make('span', { class: 'name' }, name.textContent)));
    row.addEventListener('click', (event) => {
      if (event.target.closest('a, label, input') || String(getSelection())) return;
      box.checked = !box.checked;
      tick(box, place);
    });
    row.addEventListener('pointerenter', () => warm(place));
    row.addEventListener('pointerleave', () => warm(null));
    row.addEventListener('focusin', () => warm(place));
    row.addEventListener('focusout', () => warm(null));
  }
}

function tick(box, place) {
  if (!choose(place, box.checked)) box.checked = false;
  changed('chosen');
}

/** Sort every ranking class by a column, the better end first; again, the other way round. */
function sortBy(section, column) {
  const heads = [...section.querySelectorAll('thead th')];
  const head = heads[column];
  const other = { ascending: 'descending', descending: 'ascending' };
  const order = head.hasAttribute('aria-sort') ? other[head.getAttribute('aria-sort')] : head.dataset.first;
  heads.forEach((each) => each.removeAttribute('aria-sort'));
  head.setAttribute('aria-sort', order);
  for (const body of section.querySelectorAll('tbody')) {
    const rows = [...body.querySelectorAll('tr[data-row]')];
    const sorted = rows.map((row) => ({ row, place: Number(row.dataset.row), key: keyOf(row.children[column]) }));
    sorted.sort((a, b) => compared(a.key, b.key, order === 'ascending' ? 1 : -1) || a.place - b.place);
    body.append(...sorted.map(({ row }) => row));
  }
}

function keyOf(cell) {
  const value = cell.dataset.value;
  if (value === undefined) return null;
  return value !== '' && Number.isFinite(Number(value)) && cell.tagName === 'TD' ? Number(value) : value;
}

/** Nothing comes last, whichever way. */
function compared(a, b, sign) {
  if (a === null || b === null) return (a === null) - (b === null);
  if (typeof a === 'number' && typeof b === 'number') return sign * (a - b);
  return sign * (String(a) < String(b) ? -1 : String(a) > String(b) ? 1 : 0);
}

/** Hide the rows that were not asked for, and say how many are left. */
function filter() {
  const words = find('find').value.toLowerCase().split(/\s+/).filter(Boolean);
  const family = find('family').value;
  const only = find('only').checked;
  const wanted = find('class').value;
  const section = sectionOf(state.place);
  let shown = 0;
  for (const body of section.querySelectorAll('tbody')) {
    let any = false;
    for (const row of body.querySelectorAll('tr[data-row]')) {
      const place = Number(row.dataset.row);
      const encoding = state.board.encodings[place];
      const text = `${encoding.name} ${encoding.family} ${encoding.class}`.toLowerCase();
      row.hidden = !(
        words.every((word) => text.includes(word)) &&
        (!family || encoding.family === family) &&
        (!wanted || encoding.class === wanted) &&
        (!only || state.slots.has(place))
      );
      any = any || !row.hidden;
      shown += !row.hidden;
    }
    body.hidden = !any;
  }
  const count = `${shown} of ${state.board.encodings.length} encodings`;
  if (find('count').value !== count) find('count').value = count;
}

/** What the task columns show. */
function view(which) {
  const section = sectionOf(state.place);
  const heads = [...section.querySelectorAll('thead th')];
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
      paint(cell);
    }
    const order = head.getAttribute('aria-sort');
    if (order) {
      head.removeAttribute('aria-sort'); // the same order, by the new numbers
      head.dataset.first = order;
      sortBy(section, column);
      head.dataset.first = 'descending';
    }
  });
}

/** The heat map: a task's cell is filled by its share. */
function paint(cell) {
  if (cell.dataset.value !== undefined) cell.style.setProperty('--share', cell.dataset.value);
  else cell.style.removeProperty('--share');
}

/** Boxes and swatches as the choice is. */
function mark() {
  for (const row of sectionOf(state.place).querySelectorAll('tr[data-row]')) {
    const slot = state.slots.get(Number(row.dataset.row));
    row.classList.toggle('on', slot !== undefined);
    row.querySelector('input').checked = slot !== undefined;
    row.querySelector('.swatch').replaceWith(swatch(slot));
  }
}

const sectionOf = (place) => document.querySelector(`[data-board="${place}"]`);
