// Background and axes of a panel: training lengths shaded, a line at L, chance dotted; and the ticks.

/** Ticks at multiples of L that fit next to each other: L itself and the ends first, then whole multiples. */
function ticks(task, width) {
  const worth = (n) => [
    n !== task.base,
    n !== task.lengths[0] && n !== task.lengths.at(-1),
    n % task.base !== 0,
    (2 * n) % task.base !== 0,
  ];
  const order = [...task.lengths].sort((a, b) => {
    const differ = worth(a).findIndex((value, i) => value !== worth(b)[i]);
    return differ < 0 ? a - b : worth(a)[differ] - worth(b)[differ];
  });
  const [first, last] = [task.lengths[0], task.lengths.at(-1)].map((n) => position(task, n));
  const at = (n) => ((position(task, n) - first) / (last - first)) * width;
  const kept = [];
  for (const n of order) if (kept.every((other) => Math.abs(at(n) - at(other)) > 24)) kept.push(n);
  return kept
    .sort((a, b) => a - b)
    .map((n) => ({ value: position(task, n), label: n === task.base ? 'L' : times(n / task.base) }));
}

const trainingRange = {
  id: 'training-range',
  beforeDatasetsDraw(chart) {
    const { ctx, chartArea: area, scales, panel } = chart;
    const { task } = panel;
    const edge = scales.x.getPixelForValue(0);
    ctx.save();
    ctx.fillStyle = colour('shade');
    ctx.fillRect(area.left, area.top, edge - area.left, area.bottom - area.top);
    drawLine(ctx, [[edge, area.top], [edge, area.bottom]], colour('muted'));
    if (task.chance) {
      const at = (n, i) => [scales.x.getPixelForValue(position(task, n)), scales.y.getPixelForValue(Number(task.chance[i]))];
      drawLine(ctx, task.lengths.map(at), colour('muted'), 1.5, [1.5, 3]);
      ctx.fillStyle = colour('muted');
      ctx.font = '11px system-ui, sans-serif';
      ctx.fillText('chance', area.left + 4, scales.y.getPixelForValue(Number(task.chance[0])) - 4);
    }
    ctx.restore();
  },
};

/** The axes of a panel. */
function axes(task) {
  const text = { color: () => colour('muted'), font: { size: 11 } };
  const [low, high] = [task.lengths[0], task.lengths.at(-1)].map((n) => position(task, n));
  return {
    x: {
      type: 'linear',
      min: low,
      max: high,
      grid: { color: () => colour('grid'), drawTicks: true, drawOnChartArea: false },
      border: { color: () => colour('muted') },
      afterBuildTicks: (axis) => {
        axis.ticks = ticks(task, axis.width);
      },
      ticks: { ...text, autoSkip: false, maxRotation: 0, callback: (value, i, all) => all[i].label },
    },
    y: {
      type: 'linear',
      min: 0,
      max: 1,
      grid: { color: () => colour('grid'), drawTicks: false },
      border: { display: false },
      ticks: { ...text, stepSize: 0.25, padding: 6, callback: (value) => ({ 0: '0', 0.5: '.5', 1: '1' })[value] ?? '' },
    },
  };
}
