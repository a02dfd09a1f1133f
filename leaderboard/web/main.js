// Everything joined: which board is shown, its filters, light and dark.

function show(place) {
  state.place = place;
  state.board = data.boards[place];
  state.slots.clear();
  state.hot = null;
  state.board.first.forEach((each) => choose(each, true));
  document.querySelectorAll('.board').forEach((section) => (section.hidden = Number(section.dataset.board) !== place));
  sectionOf(place).querySelector('.scroll').before(find('controls'));
  const classes = [...new Set(state.board.encodings.map((encoding) => encoding.class))];
  find('class').replaceChildren(
    make('option', { value: '' }, 'all'),
    ...classes.map((name) => make('option', { value: name }, name)),
  );
  find('class').parentElement.hidden = classes.length < 2;
  build();
  view(find('view').selectedIndex);
  changed('chosen');
}

const dark = matchMedia('(prefers-color-scheme: dark)');
const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? 'dark' : 'light')) === 'dark';

function themed() {
  find('theme').setAttribute('aria-pressed', isDark());
  colours.clear();
  redraw();
}

/** A page opened from a disk may not be allowed to remember. */
function remembered(value) {
  try {
    if (value) localStorage.setItem('lprime-theme', value);
    return localStorage.getItem('lprime-theme');
  } catch {
    return null;
  }
}

function start() {
  document.documentElement.classList.add('js');
  const theme = remembered();
  if (theme === 'dark' || theme === 'light') document.documentElement.dataset.theme = theme;
  find('theme').addEventListener('click', () => {
    document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
    remembered(document.documentElement.dataset.theme);
    themed();
  });
  dark.addEventListener('change', themed);

  document.querySelectorAll('.board').forEach(enliven);
  document.querySelectorAll('td.task').forEach(paint);
  find('suites').hidden = data.boards.length < 2;
  find('suite').addEventListener('change', (event) => show(Number(event.target.value)));
  find('controls').addEventListener('submit', (event) => event.preventDefault());
  find('find').addEventListener('input', filter);
  for (const name of ['family', 'class', 'only']) find(name).addEventListener('change', filter);
  find('view').addEventListener('change', (event) => view(event.target.selectedIndex));
  state.listeners.push((what) => {
    if (what === 'hot') return panels.forEach((panel) => panel.chart.draw());
    for (const update of [mark, filter, redraw, chips, beats, numbers, sources]) update();
  });
  themed();
  show(0);
}

start();
