// Curves: one panel per task, drawn by Chart.js, with a tooltip for the point under the pointer or the arrow keys.

const panels = [];

/** Replace all panels by those of the visible board. */
function buildPanels() {
  for (const panel of panels.splice(0)) panel.chart.destroy();
  byId('panels').replaceChildren();
  state.board.tasks.forEach((task, index) => {
    const canvas = make('canvas');
    const box = make('div', { class: 'tooltip', hidden: true });
    const keys = 'Arrow keys: left and right for lengths, up and down for encodings.';
    const label = `${task.title}, L = ${task.base}: exact match by test length. ${keys}`;
    const plot = make('div', { class: 'plot', tabindex: 0, role: 'group', 'aria-label': label }, canvas, box);
    const unit = make('p', { class: 'unit' }, `L = ${task.base}${task.unit ? ` ${task.unit}` : ''}`);
    byId('panels').append(make('div', { class: 'panel' }, make('h3', {}, task.title), unit, plot));
    const panel = { task, index, plot, box, all: curvesOf(index), curves: [], at: null };
    Chart.defaults.font.family = 'system-ui, sans-serif';
    panel.chart = new Chart(canvas, {
      type: 'line',
      data: { datasets: [] },
      options: {
        animation: false,
        events: [], // handled in addListeners, for pointer and keys alike
        responsive: true,
        maintainAspectRatio: false,
        layout: { padding: { right: labelStyle.room, top: 6 } },
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
      plugins: [{ id: 'panel', beforeInit: (chart) => (chart.panel = panel) }, trainingRange, curveLabels, hoverMarker],
    });
    addListeners(panel);
    panels.push(panel);
  });
}

function curvesOf(index) {
  return state.board.encodings
    .map((encoding, id) => ({
      id,
      name: encoding.name + (encoding.apart ? ' †' : ''),
      numbers: encoding.cells[index],
    }))
    .filter((curve) => curve.numbers);
}

/** Draw the curves, from bottom to top: unselected encodings that the filters leave, seeds, selected encodings. */
function redrawPanels() {
  for (const panel of panels) {
    const x = panel.task.lengths.map((n) => position(panel.task, n));
    const points = (values) => values.map((y, i) => ({ x: x[i], y: Number(y) }));
    for (const curve of panel.all) curve.slot = state.slots.get(curve.id);
    panel.curves = panel.all.filter(({ id, slot }) => state.shown.size && (slot !== undefined || state.shown.has(id)));
    const on = panel.curves.filter((curve) => curve.slot !== undefined);
    const off = panel.curves.filter((curve) => curve.slot === undefined);
    const gap = { x: NaN, y: NaN }; // many curves drawn as one take a fraction of the time
    const grey = lineDataset(
      off.flatMap((curve) => [...points(curve.numbers.mean), gap]),
      colour('grey'),
      0.8,
      [],
      3,
    );
    const dots = on.map((curve) => seedDataset(curve, points));
    const lines = on.map((curve) =>
      lineDataset(points(curve.numbers.mean), colour(colourName(curve.slot)), 2, dashes(curve.slot), 1),
    );
    panel.chart.data.datasets = [grey, ...dots, ...lines];
    panel.chart.update('none');
    if (panel.at && !panel.curves.includes(panel.at.curve)) clearPointer(panel);
  }
}

function lineDataset(points, borderColor, borderWidth, borderDash, order) {
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

function seedDataset(curve, points) {
  const backgroundColor = `${colour(colourName(curve.slot))}80`;
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

/** Draws the curve under the pointer, here or in the table, on top of all others. */
const hoverMarker = {
  id: 'hover-marker',
  afterDatasetsDraw(chart) {
    const { ctx, chartArea: area, scales, panel } = chart;
    const hovered = panel.curves.find((curve) => curve.id === state.hovered);
    if (!hovered) return;
    const at = (i) => [
      scales.x.getPixelForValue(position(panel.task, panel.task.lengths[i])),
      scales.y.getPixelForValue(Number(hovered.numbers.mean[i])),
    ];
    ctx.save();
    const hoverColour = colour(hovered.slot === undefined ? 'text' : colourName(hovered.slot));
    ctx.lineJoin = 'round';
    drawLine(ctx, panel.task.lengths.map((n, i) => at(i)), hoverColour, 3.5);
    if (panel.at) {
      const [x, y] = at(panel.at.i);
      drawLine(ctx, [[x, area.top], [x, area.bottom]], colour('muted'));
      ctx.fillStyle = hoverColour;
      ctx.beginPath();
      ctx.arc(x, y, 5, 0, 2 * Math.PI);
      ctx.fill();
    }
    ctx.restore();
  },
};

function addListeners(panel) {
  const { plot } = panel;
  plot.addEventListener('pointermove', (event) => pointTo(panel, event));
  plot.addEventListener('pointerdown', (event) => pointTo(panel, event));
  plot.addEventListener('pointerleave', (event) => event.pointerType === 'mouse' && clearPointer(panel));
  plot.addEventListener('blur', () => clearPointer(panel));
  plot.addEventListener('keydown', (event) => onKey(panel, event));
  plot.addEventListener('click', (event) => {
    if (panel.at && event.pointerType === 'mouse' && pointTo(panel, event)) toggleSelected(panel.at.curve.id);
  });
}

function toggleSelected(id) {
  select(id, !state.slots.has(id));
  notify('selection');
}

/** Go to the curve nearest to the pointer, preferably a selected one, and on it to the nearest length. */
function pointTo(panel, event) {
  const { chart, task } = panel;
  const frame = chart.canvas.getBoundingClientRect();
  const [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
  const { left, right, top, bottom } = chart.chartArea;
  if (x < left - 8 || x > right + 8 || y < top - 12 || y > bottom + 12) return clearPointer(panel);
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
  if (best) pointAt(panel, best.curve, part < 0.5 ? i - 1 : i);
  return Boolean(best);
}

function onKey(panel, event) {
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
  if (event.key === 'Escape') return clearPointer(panel);
  if (event.key === 'Enter' && panel.at) return toggleSelected(panel.at.curve.id);
  if (!moves[event.key] || !all.length || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  const [across, down] = moves[event.key];
  const { lengths, base } = panel.task;
  const start = panel.at ?? { curve: all[0], i: lengths.indexOf(base) === -1 ? 0 : lengths.indexOf(base), fresh: true };
  const i = start.fresh ? start.i : Math.min(Math.max(start.i + across, 0), lengths.length - 1);
  const order = [...all].sort((a, b) => b.numbers.mean[i] - a.numbers.mean[i] || a.id - b.id);
  const at = order.indexOf(start.curve);
  const step = start.fresh || !down ? at : Math.min(Math.max(at + down, 0), order.length - 1);
  pointAt(panel, order[Math.max(step, 0)], i);
  announce(panel.box.dataset.announcement);
}

function pointAt(panel, curve, i) {
  panel.at = { curve, i };
  for (const other of panels) {
    if (other === panel) continue;
    other.at = null;
    other.box.hidden = true;
  }
  showTooltip(panel);
  if (state.hovered === curve.id) panel.chart.draw();
  else hover(curve.id);
}

function clearPointer(panel) {
  panel.box.hidden = true;
  if (!panel.at) return false;
  panel.at = null;
  state.hovered = null;
  notify('hover');
  return false;
}

const tooltipRows = 8;

/** The tooltip: all selected encodings at that length, best first, and each seed of the current one. */
function showTooltip(panel) {
  const { task, box, at, chart } = panel;
  const { curve, i } = at;
  const value = (each) => each.numbers.mean[i];
  const listed = panel.curves.filter((each) => each.slot !== undefined || each === curve);
  listed.sort((a, b) => value(b) - value(a) || a.id - b.id);
  const first = Math.min(Math.max(0, listed.indexOf(curve) - 4), Math.max(0, listed.length - tooltipRows));
  const where = `length ${task.lengths[i]} = ${times(task.lengths[i] / task.base)} L`;
  const bySeed = curve.numbers.seeds.map((seed, s) => `${seed}:\u00a0${share(curve.numbers.exact[s][i])}`).join(', ');
  const chance = task.chance ? `chance ${task.chance[i]}` : '';
  const rows = listed
    .slice(first, first + tooltipRows)
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
    make('p', {}, make('b', {}, curve.name), ` by seed ${bySeed}`),
  );
  const announcement = `${curve.name}, ${task.title}, ${where}: exact match ${value(curve)}; by seed ${bySeed}`;
  box.dataset.announcement = chance ? `${announcement}; ${chance}` : announcement;
  box.hidden = false;
  const x = chart.scales.x.getPixelForValue(position(task, task.lengths[i]));
  // Over the names, else to the left of the length, else under the panel: never over the current point.
  const right = panel.plot.clientWidth - box.offsetWidth;
  const left = x - box.offsetWidth - 10;
  box.style.left = `${x + 10 < right ? right : Math.max(0, left)}px`;
  box.style.top = x + 10 < right || left >= 0 ? '0' : '100%';
}
