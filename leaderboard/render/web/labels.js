// Names at the right edge of a panel, each connected to its curve, without overlaps.

const labelStyle = { size: 11, line: 14, room: 156, together: 0.06 };

/** Positions closest to the wanted ones, in the same order and a line apart: neighbours that clash share their mean position. */
function spreadLabels(wanted, gap, low, high) {
  const pools = [];
  wanted.forEach((want, i) => {
    let pool = { sum: want - i * gap, count: 1 };
    while (pools.length && pools.at(-1).sum / pools.at(-1).count >= pool.sum / pool.count) {
      const before = pools.pop();
      pool = { sum: pool.sum + before.sum, count: pool.count + before.count };
    }
    pools.push(pool);
  });
  const last = Math.max(low, high - (wanted.length - 1) * gap);
  return pools
    .flatMap(({ sum, count }) => Array(count).fill(sum / count))
    .map((position, i) => Math.min(Math.max(position, low), last) + i * gap);
}

/** Text, shortened in the middle until it fits. */
function truncated(ctx, text, width) {
  if (ctx.measureText(text).width <= width) return text;
  for (let kept = text.length - 1; kept > 2; kept--) {
    const cut = `${text.slice(0, Math.ceil(kept / 2))}…${text.slice(text.length - Math.floor(kept / 2))}`;
    if (ctx.measureText(cut).width <= width) return cut;
  }
  return '…';
}

/** From top to bottom by where curves end; curves that end together by their means. */
function labelOrder(curves, end, mean) {
  const groups = [];
  let before = null;
  for (const curve of [...curves].sort((a, b) => end(b) - end(a))) {
    if (before && end(before) - end(curve) <= labelStyle.together) groups.at(-1).push(curve);
    else groups.push([curve]);
    before = curve;
  }
  return groups.flatMap((group) => group.sort((a, b) => mean(b) - mean(a)));
}

const curveLabels = {
  id: 'curve-labels',
  afterDatasetsDraw(chart) {
    const { ctx, chartArea: area, scales, panel } = chart;
    const end = (curve) => Number(curve.numbers.mean.at(-1));
    const past = (curve) => state.board.encodings[curve.id].views[panel.index][0];
    const order = labelOrder(
      panel.curves.filter((curve) => curve.slot !== undefined),
      end,
      (curve) => past(curve)[1],
    );
    const fit = Math.floor((area.bottom - area.top + 20) / labelStyle.line);
    const hidden = order.splice(fit - (order.length > fit)).length;
    const wanted = order.map((curve) => scales.y.getPixelForValue(end(curve)));
    if (hidden) wanted.push(area.bottom);
    const centres = spreadLabels(wanted, labelStyle.line, area.top, area.bottom + 10);
    ctx.save();
    ctx.textBaseline = 'middle';
    order.forEach((curve, i) => {
      const hovered = curve.id === state.hovered;
      const mean = past(curve)[0].split(/\s/)[0];
      ctx.font = `${hovered ? 'bold ' : ''}${labelStyle.size}px system-ui, sans-serif`;
      const lineColour = colour(colourName(curve.slot));
      const start = [area.right + 8, centres[i]];
      drawLine(ctx, [[area.right, wanted[i]], start], lineColour);
      drawLine(ctx, [start, [area.right + 20, centres[i]]], lineColour, 3, dashes(curve.slot));
      ctx.fillStyle = colour('text');
      ctx.textAlign = 'right';
      ctx.fillText(mean, area.right + 54, centres[i]);
      ctx.textAlign = 'left';
      const from = area.right + 58;
      ctx.fillText(truncated(ctx, curve.name, chart.width - from - 2), from, centres[i]);
    });
    if (hidden) {
      ctx.font = `${labelStyle.size}px system-ui, sans-serif`;
      ctx.fillStyle = colour('muted');
      ctx.fillText(`and ${hidden} more`, area.right + 24, centres.at(-1));
    }
    ctx.restore();
  },
};
