// Curves: a panel a task, drawn by Chart.js; what the pointer or the arrow keys are on is said in a box beside it.

const panels = [];

/** Panels of the board that is shown, in place of those of another. */
function build() {
  for (const panel of panels.splice(0)) panel.chart.destroy();
  find('panels').replaceChildren();
  state.board.tasks.forEach((task, index) => {
    const canvas = make('canvas');
    const box = make('div', { class: 'tip', hidden: true });
    const keys = 'Arrow keys: left and right for lengths, up and down for encodings.';
    const label = `${task.title}, L = ${task.base}: exact match by test length. ${keys}`;
    const plot = make('div', { class: 'plot', tabindex: 0, role: 'group', 'aria-label': label }, canvas, box);
    const unit = make('p', { class: 'unit' }, `L = ${task.base}${task.unit ? ` ${task.unit}` : ''}`);
    find('panels').append(make('div', { class: 'panel' }, make('h3', {}, task.title), unit, plot));
    const panel = { task, index, plot, box, curves: curvesOf(index), at: null };
    Chart.defaults.font.family = 'system-ui, sans-serif';
    panel.chart = new Chart(canvas, {
      type: 'line',
      data: { datasets: [] },
      options: {
        animation: false,
        events: [], // pointer and keys are heard below, alike
        responsive: true,
        maintainAspectRatio: false,
        layout: { padding: { right: names.room, top: 6 } },
        plugins: {
          legend: false,
          tooltip: false,
          title: false,
          subtitle: false,
          filler: false,
          colors: false,
          decimation: false,
        },
        scales: axes(task),
      },
      plugins: [{ id: 'panel', beforeInit: (chart) => (chart.panel = panel) }, ground, beside, spot],
    });
    listen(panel);
    panels.push(panel);
  });
}

function curvesOf(index) {
  return state.board.encodings
    .map((encoding, place) => ({
      place,
      name: encoding.name + (encoding.apart ? ' †' : ''),
      numbers: encoding.cells[index],
    }))
    .filter((curve) => curve.numbers);
}

/** What is drawn, from the bottom to the top: others, seeds, the chosen. */
function redraw() {
  for (const panel of panels) {
    const x = panel.task.lengths.map((n) => position(panel.task, n));
    const points = (values) => values.map((y, i) => ({ x: x[i], y: Number(y) }));
    for (const curve of panel.curves) curve.slot = state.slots.get(curve.place);
    const on = panel.curves.filter((curve) => curve.slot !== undefined);
    const off = panel.curves.filter((curve) => curve.slot === undefined);
    const gap = { x: NaN, y: NaN }; // many curves as one, which takes a fraction of the time
    const grey = line(
      off.flatMap((curve) => [...points(curve.numbers.mean), gap]),
      colour('grey'),
      0.8,
      [],
      3,
    );
    const dots = on.map((curve) => seeds(curve, points));
    const lines = on.map((curve) => {
      const dash = shape.dashes[Math.floor(curve.slot / shape.colours)];
      return line(points(curve.numbers.mean), colour(`line-${curve.slot % shape.colours}`), 2, dash, 1);
    });
    panel.chart.data.datasets = [grey, ...dots, ...lines];
    panel.chart.update('none');
    if (panel.at && !panel.curves.includes(panel.at.curve)) leave(panel);
  }
}

function line(points, borderColor, borderWidth, borderDash, order) {
  return {
    data: points,
    borderColor,
    borderWidth,
    borderDash,
    order,
    pointRadius: 0,
    tension: 0,
    clip: 8,
    borderJoinStyle: 'round',
  };
}

function seeds(curve, points) {
  const backgroundColor = `${colour(`line-${curve.slot % shape.colours}`)}80`;
  return {
    data: curve.numbers.exact.flatMap(points),
    showLine: false,
    pointRadius: 1.8,
    clip: 8,
    pointBorderWidth: 0,
    backgroundColor,
    order: 2,
  };
}

/** The curve that is pointed at, here or in the table, on top of all others. */
const spot = {
  id: 'spot',
  afterDatasetsDraw(chart) {
    const { ctx, chartArea: area, scales, panel } = chart;
    const hot = panel.curves.find((curve) => curve.place === state.hot);
    if (!hot) return;
    const at = (i) => [
      scales.x.getPixelForValue(position(panel.task, panel.task.lengths[i])),
      scales.y.getPixelForValue(Number(hot.numbers.mean[i])),
    ];
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour(hot.slot === undefined ? 'text' : `line-${hot.slot % shape.colours}`);
    ctx.lineWidth = 3.5;
    ctx.lineJoin = 'round';
    ctx.beginPath();
    panel.task.lengths.forEach((n, i) => ctx.lineTo(...at(i)));
    ctx.stroke();
    if (panel.at) {
      const [x, y] = at(panel.at.i);
      ctx.strokeStyle = colour('muted');
      ctx.lineWidth = 1;
      ctx.beginPath();
      ctx.moveTo(x, area.top);
      ctx.lineTo(x, area.bottom);
      ctx.stroke();
      ctx.beginPath();
      ctx.arc(x, y, 5, 0, 2 * Math.PI);
      ctx.fill();
    }
    ctx.restore();
  },
};

function listen(panel) {
  const { plot } = panel;
  plot.addEventListener('pointermove', (event) => point(panel, event));
  plot.addEventListener('pointerdown', (event) => point(panel, event));
  plot.addEventListener('pointerleave', (event) => event.pointerType === 'mouse' && leave(panel));
  plot.addEventListener('blur', () => leave(panel));
  plot.addEventListener('keydown', (event) => key(panel, event));
  plot.addEventListener('click', (event) => {
    if (panel.at && event.pointerType === 'mouse' && point(panel, event)) toggle(panel.at.curve.place);
  });
}

function toggle(place) {
  choose(place, !state.slots.has(place));
  changed('chosen');
}

/** Go to what is nearest to the pointer: the curve where the pointer is, the chosen first; then the nearest length. */
function point(panel, event) {
  const { chart, task } = panel;
  const frame = chart.canvas.getBoundingClientRect();
  const [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
  const { left, right, top, bottom } = chart.chartArea;
  if (x < left - 8 || x > right + 8 || y < top - 12 || y > bottom + 12) return leave(panel);
  const xs = task.lengths.map((n) => chart.scales.x.getPixelForValue(position(task, n)));
  const after = xs.findIndex((each) => each > x);
  const i = Math.max(1, after === -1 ? xs.length - 1 : after);
  const part = Math.min(Math.max((x - xs[i - 1]) / (xs[i] - xs[i - 1]), 0), 1);
  let best = null;
  for (const curve of panel.curves) {
    const [from, to] = [curve.numbers.mean[i - 1], curve.numbers.mean[i]].map((v) =>
      chart.scales.y.getPixelForValue(Number(v)),
    );
    const distance = Math.abs(from + part * (to - from) - y) + (curve.slot === undefined ? 5 : 0);
    if (!best || distance < best.distance) best = { curve, distance };
  }
  if (best) go(panel, best.curve, part < 0.5 ? i - 1 : i);
  return Boolean(best);
}

function key(panel, event) {
  const all = panel.curves.some((curve) => curve.slot !== undefined)
    ? panel.curves.filter((curve) => curve.slot !== undefined)
    : panel.curves;
  const moves = {
    ArrowLeft: [-1, 0],
    ArrowRight: [1, 0],
    ArrowUp: [0, -1],
    ArrowDown: [0, 1],
    Home: [-Infinity, 0],
    End: [Infinity, 0],
  };
  if (event.key === 'Escape') return leave(panel);
  if (event.key === 'Enter' && panel.at) return toggle(panel.at.curve.place);
  if (!moves[event.key] || !all.length || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  const [across, down] = moves[event.key];
  const { lengths, base } = panel.task;
  const start = panel.at ?? { curve: all[0], i: lengths.indexOf(base) === -1 ? 0 : lengths.indexOf(base), fresh: true };
  const i = start.fresh ? start.i : Math.min(Math.max(start.i + across, 0), lengths.length - 1);
  const order = [...all].sort((a, b) => b.numbers.mean[i] - a.numbers.mean[i] || a.place - b.place);
  const at = order.indexOf(start.curve);
  const step = start.fresh || !down ? at : Math.min(Math.max(at + down, 0), order.length - 1);
  go(panel, order[Math.max(step, 0)], i);
  say(panel.box.dataset.said);
}

function go(panel, curve, i) {
  panel.at = { curve, i };
  for (const other of panels) {
    if (other === panel) continue;
    other.at = null;
    other.box.hidden = true;
  }
  tell(panel);
  if (state.hot === curve.place) panel.chart.draw();
  else warm(curve.place);
}

function leave(panel) {
  panel.box.hidden = true;
  if (!panel.at) return false;
  panel.at = null;
  state.hot = null;
  changed('hot');
  return false;
}

const rowsInBox = 8;

/** The box: all chosen encodings at that length, best first, and what is pointed at with each of its seeds. */
function tell(panel) {
  const { task, box, at, chart } = panel;
  const { curve, i } = at;
  const value = (each) => each.numbers.mean[i];
  const listed = panel.curves.filter((each) => each.slot !== undefined || each === curve);
  listed.sort((a, b) => value(b) - value(a) || a.place - b.place);
  const first = Math.min(Math.max(0, listed.indexOf(curve) - 4), Math.max(0, listed.length - rowsInBox));
  const where = `length ${task.lengths[i]} = ${times(task.lengths[i] / task.base)} L`;
  const found = curve.numbers.seeds.map((seed, s) => `${seed}:\u00a0${share(curve.numbers.exact[s][i])}`).join(', ');
  const chance = task.chance ? `chance ${task.chance[i]}` : '';
  const rows = listed
    .slice(first, first + rowsInBox)
    .map((each) =>
      make(
        'tr',
        { class: each === curve ? 'here' : null },
        make('td', {}, swatch(each.slot)),
        make('td', {}, value(each)),
        make('td', {}, each.name),
      ),
    );
  const hidden = listed.length - rows.length;
  box.replaceChildren(
    make('p', {}, make('b', {}, where), chance ? `, ${chance}` : ''),
    make('table', {}, make('tbody', {}, ...rows)),
    ...(hidden ? [make('p', {}, `and ${hidden} more`)] : []),
    make('p', {}, make('b', {}, curve.name), ` by seed ${found}`),
  );
  const said = `${curve.name}, ${task.title}, ${where}: exact match ${value(curve)}; by seed ${found}`;
  box.dataset.said = chance ? `${said}; ${chance}` : said;
  box.hidden = false;
  const x = chart.scales.x.getPixelForValue(position(task, task.lengths[i]));
  // Over the names, else to the left of the length, else under the panel: never on what is pointed at.
  const right = panel.plot.clientWidth - box.offsetWidth;
  const left = x - box.offsetWidth - 10;
  box.style.left = `${x + 10 < right ? right : Math.max(0, left)}px`;
  box.style.top = x + 10 < right || left >= 0 ? '0' : '100%';
}
