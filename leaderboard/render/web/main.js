// Connects the parts: the visible board and the theme.

/** Show a board, with these encodings selected: by default those that stand out. */
function showBoard(index, names = [], chosen = false) {
  state.boardIndex = index;
  state.board = data.boards[index];
  state.slots.clear();
  state.hovered = null;
  const ids = names.map((name) => state.board.encodings.findIndex((encoding) => encoding.name === name));
  (chosen ? ids.filter((id) => id >= 0) : state.board.selected).forEach((each) => select(each, true));
  document.querySelectorAll('.board').forEach((section) => (section.hidden = Number(section.dataset.board) !== index));
  sectionOf(index).querySelector('.scroll').before(byId('controls'));
  const classes = [...new Set(state.board.encodings.map((encoding) => encoding.class))];
  byId('class').replaceChildren(
    make('option', { value: '' }, 'all'),
    ...classes.map((name) => make('option', { value: name }, name)),
  );
  byId('class').parentElement.hidden = classes.length < 2;
  showColumns(state.columns);
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

function start() {
  document.documentElement.classList.add('js');
  byId('theme').addEventListener('click', () => {
    document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
    storedTheme(document.documentElement.dataset.theme);
    applyTheme();
  });
  dark.addEventListener('change', applyTheme);

  document.querySelectorAll('.board').forEach(makeInteractive);
  document.querySelectorAll('td.task').forEach(paintCell);
  byId('suites').hidden = data.boards.length < 2;
  startView();
  state.listeners.push((event) => {
    if (event === 'hover') return panels.forEach((panel) => panel.chart.draw());
    for (const update of [markSelected, filterRows, redrawPanels, updateChips, updatePairs, updateNumbers, updateSources]) update();
    if (state.ready) saveView();
  });
  applyTheme();
  loadView();
  state.ready = true;
}

start();
