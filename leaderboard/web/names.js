// Names beside the right end of a panel, each joined to its curve, none on another.

const names = { size: 11, line: 14, room: 156, together: 0.06 };

/** Centres nearest to those wanted, in the same order, a line apart: pools of neighbours take their mean place. */
function spread(wanted, gap, low, high) {
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
    .map((place, i) => Math.min(Math.max(place, low), last) + i * gap);
}

/** Text, cut in the middle until it fits. */
function fitted(ctx, text, width) {
  if (ctx.measureText(text).width <= width) return text;
  for (let kept = text.length - 1; kept > 2; kept--) {
    const cut = `${text.slice(0, Math.ceil(kept / 2))}…${text.slice(text.length - Math.floor(kept / 2))}`;
    if (ctx.measureText(cut).width <= width) return cut;
  }
  return '…';
}

/** From high to low by where curves end; those that end together, and so cannot keep their place, by their means. */
function stacked(curves, end, mean) {
  const groups = [];
  let before = null;
  for (const curve of [...curves].sort((a, b) => end(b) - end(a))) {
    if (before && end(before) - end(curve) <= names.together) groups.at(-1).push(curve);
    else groups.push([curve]);
    before = curve;
  }
  return groups.flatMap((group) => group.sort((a, b) => mean(b) - mean(a)));
}

const beside = {
  id: 'beside',
  afterDatasetsDraw(chart) {
    const { ctx, chartArea: area, scales, panel } = chart;
    const end = (curve) => Number(curve.numbers.mean.at(-1));
    const past = (curve) => state.board.encodings[curve.place].views[panel.index][0];
    const order = stacked(
      panel.curves.filter((curve) => curve.slot !== undefined),
      end,
      (curve) => past(curve)[1],
    );
    const fit = Math.floor((area.bottom - area.top + 20) / names.line);
    const left = order.splice(fit - (order.length > fit)).length;
    const wanted = order.map((curve) => scales.y.getPixelForValue(end(curve)));
    if (left) wanted.push(area.bottom);
    const centres = spread(wanted, names.line, area.top, area.bottom + 10);
    ctx.save();
    ctx.textBaseline = 'middle';
    order.forEach((curve, i) => {
      const hot = curve.place === state.hot;
      const mean = past(curve)[0].split(/\s/)[0];
      ctx.font = `${hot ? 'bold ' : ''}${names.size}px system-ui, sans-serif`;
      ctx.strokeStyle = colour(`line-${curve.slot % shape.colours}`);
      ctx.lineWidth = 1;
      ctx.beginPath();
      ctx.moveTo(area.right, wanted[i]);
      ctx.lineTo(area.right + 8, centres[i]);
      ctx.stroke();
      ctx.lineWidth = 3;
      ctx.setLineDash(shape.dashes[Math.floor(curve.slot / shape.colours)]);
      ctx.beginPath();
      ctx.moveTo(area.right + 8, centres[i]);
      ctx.lineTo(area.right + 20, centres[i]);
      ctx.stroke();
      ctx.setLineDash([]);
      ctx.fillStyle = colour('text');
      ctx.textAlign = 'right';
      ctx.fillText(mean, area.right + 54, centres[i]);
      ctx.textAlign = 'left';
      const from = area.right + 58;
      ctx.fillText(fitted(ctx, curve.name, chart.width - from - 2), from, centres[i]);
    });
    if (left) {
      ctx.font = `${names.size}px system-ui, sans-serif`;
      ctx.fillStyle = colour('muted');
      ctx.fillText(`and ${left} more`, area.right + 24, centres.at(-1));
    }
    ctx.restore();
  },
};
