// Connects the parts: the visible board, its filters, the theme.

function showBoard(index) {
  state.boardIndex = index;
  state.board = data.boards[index];
  state.slots.clear();
  state.hovered = null;
  state.board.selected.forEach((each) => select(each, true));
  document.querySelectorAll('.board').forEach((section) => (section.hidden = Number(section.dataset.board) !== index));
  sectionOf(index).querySelector('.scroll').before(byId('controls'));
  const classes = [...new Set(state.board.encodings.map((encoding) => encoding.class))];
  byId('class').replaceChildren(
    make('option', { value: '' }, 'all'),
    ...classes.map((name) => make('option', { value: name }, name)),
  );
  byId('class').parentElement.hidden = classes.length < 2;
  buildPanels();
  showView(byId('view').selectedIndex);
  notify('selection');
}

const dark = matchMedia('(prefers-color-scheme: dark)');
const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? 'dark' : 'light')) === 'dark';

function applyTheme() {
  byId('theme').setAttribute('aria-pressed', isDark());
  colours.clear();
  redrawPanels();
}

/** The stored theme, after storing a new one; null where the browser forbids storage, as for some local files. */
function storedTheme(value) {
  try {
    if (value) localStorage.setItem('lprime-theme', value);
    return localStorage.getItem('lprime-theme');
  } catch {
    return null;
  }
}

function start() {
  document.documentElement.classList.add('js');
  const theme = storedTheme();
  if (theme === 'dark' || theme === 'light') document.documentElement.dataset.theme = theme;
  byId('theme').addEventListener('click', () => {
    document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
    storedTheme(document.documentElement.dataset.theme);
    applyTheme();
  });
  dark.addEventListener('change', applyTheme);

  document.querySelectorAll('.board').forEach(makeInteractive);
  document.querySelectorAll('td.task').forEach(paintCell);
  byId('suites').hidden = data.boards.length < 2;
  byId('suite').addEventListener('change', (event) => showBoard(Number(event.target.value)));
  byId('controls').addEventListener('submit', (event) => event.preventDefault());
  byId('find').addEventListener('input', filterRows);
  for (const name of ['family', 'class', 'only']) byId(name).addEventListener('change', filterRows);
  byId('view').addEventListener('change', (event) => showView(event.target.selectedIndex));
  state.listeners.push((event) => {
    if (event === 'hover') return panels.forEach((panel) => panel.chart.draw());
    for (const update of [markSelected, filterRows, redrawPanels, updateChips, updatePairs, updateNumbers, updateSources]) update();
  });
  applyTheme();
  showBoard(0);
}

start();
