"use strict";
/* The charts: curves of a task, score against cost, attention by distance of the card; and their export. */
const TICKS = [0.25, 0.5, 1, 2, 4, 8, 16, 32, 64];
const COSTS = [0.5, 0.8, 0.9, 1, 1.1, 1.2, 1.5, 2, 3, 4, 6, 8];
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const near = (value) => (value === null || value === undefined ? "–" : value.toFixed(2).replace(/^-0\.00$/, "0.00"));
const inside = (ticks) => (scale) => { scale.ticks = ticks.filter((x) => x >= scale.min * 0.999 && x <= scale.max * 1.001).map((value) => ({ value })); };
const background = {
  id: "background",
  beforeDraw: (chart) => { chart.ctx.fillStyle = css("--back"); chart.ctx.fillRect(0, 0, chart.width, chart.height); },
};
/* The dotted line at the training length. */
const trainedTo = {
  id: "trainedTo",
  beforeDatasetsDraw: ({ ctx, chartArea, scales }) => {
    const x = scales.x.getPixelForValue(1);
    if (scales.x.min > 1 || scales.x.max < 1) return;
    Object.assign(ctx, { strokeStyle: css("--muted"), lineWidth: 1 });
    ctx.setLineDash([3, 3]);
    ctx.beginPath();
    ctx.moveTo(x, chartArea.top);
    ctx.lineTo(x, chartArea.bottom);
    ctx.stroke();
    ctx.setLineDash([]);
  },
};

function axis(title, more = {}) {
  const { ticks, ...rest } = more;
  return { ...rest, ticks: { color: css("--muted"), ...ticks }, grid: { color: css("--line") },
    title: { display: Boolean(title), text: title, color: css("--muted") } };
}

function options(title, x, y) {
  return { animation: false, maintainAspectRatio: false, scales: { x, y },
    plugins: { legend: { display: false }, title: { display: Boolean(title), text: title, color: css("--text"), align: "start" } } };
}

/* Curves of one task: the chosen encodings in colour, with the range over blocks, the others grey. */
function curvesConfig(board, recipe, task, names, others) {
  const line = (name, strong) => {
    const own = curveOf(recipe, task, name);
    const points = (values) => own.at.map((x, n) => ({ x, y: values[n] }));
    const base = { label: name, pointRadius: 0, segment: {}, parsing: false };
    if (!own) return [];
    if (!strong) return [{ ...base, data: points(own.mean), borderWidth: 0.7, borderColor: css("--line"), order: 2, pointHitRadius: 0 }];
    const colour = board.rows[name].colour, edge = { ...base, label: "", borderWidth: 0, pointHitRadius: 0, order: 1 };
    return [{ ...base, data: points(own.mean), borderWidth: 2.5, borderColor: colour, pointHitRadius: 8, own },
      { ...edge, data: points(own.low) }, { ...edge, data: points(own.high), fill: "-1", backgroundColor: `${colour}1f` }];
  };
  const drawn = [...names.flatMap((name) => line(name, true)), ...others.flatMap((name) => line(name, false))];
  const title = `${board.tasks[task]}: score by test length (${recipe.label})`;
  const config = options(title, axis("", { type: "logarithmic", ticks: { callback: (x) => (x === 1 ? "L" : `${x} L`) } }), axis("", { min: -0.02, max: 1.02 }));
  config.scales.x.afterBuildTicks = inside(TICKS);
  config.scales.y.afterBuildTicks = inside([0, 0.2, 0.4, 0.6, 0.8, 1]);
  const ends = drawn.flatMap((one) => one.data.map((point) => point.x));
  Object.assign(config.scales.x, { min: Math.min(...ends), max: Math.max(...ends) });
  config.plugins.legend = { labels: { color: css("--text"), boxWidth: 14, boxHeight: 1, filter: (item) => names.includes(item.text) } };
  config.plugins.tooltip = { filter: (item) => names.includes(item.dataset.label), callbacks: {
    title: (items) => (items.length ? `${items[0].parsed.x} L` : ""),
    label: ({ dataset, dataIndex, parsed }) => `${dataset.label}: ${near(parsed.y)} (${near(dataset.own.low[dataIndex])} to ${near(dataset.own.high[dataIndex])})` } };
  return { type: "line", data: { datasets: drawn }, options: config, plugins: [background, trainedTo] };
}

/* Score against step time; the line joins what nothing beats in both. points: {name, x, y, colour}. */
function costConfig(points, names, onPick) {
  const front = points.filter((one) => !points.some((other) => other.x <= one.x && other.y > one.y)).sort((a, b) => a.x - b.x);
  const line = [...front, { x: Math.max(...points.map((one) => one.x)), y: front.at(-1).y }];
  const config = options("", axis("step time, nope = 1", { type: "logarithmic", ticks: { callback: (x) => `${x}×` } }), axis("score", { min: 0, max: 1 }));
  config.scales.x.afterBuildTicks = inside(COSTS);
  config.scales.y.afterBuildTicks = inside([0, 0.2, 0.4, 0.6, 0.8, 1]);
  return scatterConfig(config, points, front, line, names, onPick, ({ raw }) => `${raw.name}: ${near(raw.y)} at ${near(raw.x)}×`);
}

/* Bits per character of real text far beyond L against the score on synthetic tasks. */
function textConfig(points, names, onPick) {
  const config = options("", axis("score", { min: 0, max: 1 }), axis("bits per character", { reverse: true }));
  config.scales.x.afterBuildTicks = inside([0, 0.2, 0.4, 0.6, 0.8, 1]);
  return scatterConfig(config, points, [], [], names, onPick, ({ raw }) => `${raw.name}: ${near(raw.y)} bits, score ${near(raw.x)}`);
}

/* A dot for each encoding, with the names of the chosen ones and of those on the line. */
function scatterConfig(config, points, front, line, names, onPick, told) {
  config.plugins.tooltip = { filter: (item) => item.datasetIndex === 0, callbacks: { label: told } };
  config.onClick = (event, found, chart) => {
    const hit = chart.getElementsAtEventForMode(event, "nearest", { intersect: true }, true).find((one) => one.datasetIndex === 0);
    if (hit) onPick(points[hit.index].name);
  };
  const strong = (point) => names.includes(point.name) || front.includes(point);
  const label = { id: "label", afterDatasetsDraw: ({ ctx, scales, chartArea }) => {
    Object.assign(ctx, { font: "12px system-ui, sans-serif", textBaseline: "middle", textAlign: "left", fillStyle: css("--text") });
    const boxes = [];
    for (const point of points.filter(strong).sort((a, b) => b.y - a.y)) {
      const x = scales.x.getPixelForValue(point.x), y = scales.y.getPixelForValue(point.y), wide = ctx.measureText(point.name).width;
      const left = Math.min(x + 8, chartArea.right - wide);
      const free = (top) => boxes.every((box) => left > box.right || left + wide < box.left || Math.abs(top - box.top) > 13);
      const top = y + ([0, -13, 13, -26, 26, -39, 39].find((shift) => free(y + shift)) ?? 0);
      boxes.push({ left, right: left + wide, top });
      ctx.fillText(point.name, left, top);
    }
  } };
  return { type: "scatter", options: config, plugins: [background, label], data: { datasets: [
    { data: points, pointHitRadius: 6, pointRadius: points.map((one) => (strong(one) ? 6 : 4)), order: 1,
      backgroundColor: points.map((one) => (strong(one) ? one.colour : css("--muted"))) },
    { type: "line", data: line, stepped: "before", borderColor: css("--muted"), borderWidth: 1, borderDash: [4, 4], pointRadius: 0, order: 2, segment: {} }] } };
}

/* Attention by distance before training, a line for each head. */
function attentionConfig(heads, colour) {
  const floor = 1e-4, top = Math.max(...heads.flat());
  const y = axis("", { type: "logarithmic", min: floor, max: top < 0.1 ? 0.1 : 1, ticks: { callback: (value) => `${value}` } });
  y.afterBuildTicks = inside([0.0001, 0.001, 0.01, 0.1, 1]);
  const config = options("Attention by distance, before training", axis("tokens back"), y);
  Object.assign(config.scales.x, { type: "linear", max: heads[0].length - 1 });
  config.plugins.tooltip = { enabled: false };
  const datasets = heads.map((values, h) => ({ data: values.map((value, x) => ({ x, y: value < floor ? null : value })), pointRadius: 0,
    borderWidth: 1.5, borderColor: colour, borderDash: [[], [6, 3], [2, 2], [8, 2, 2, 2]][h % 4] }));
  return { type: "line", data: { datasets }, options: config, plugins: [background] };
}

function draw(canvas, config) {
  Chart.getChart(canvas)?.destroy();
  return new Chart(canvas, config);
}

/* A chart as SVG: Chart.js draws on a context that writes SVG. */
function asSvg(config, width, height) {
  const ctx = new svgcanvas.Context({ width, height });
  Object.defineProperty(ctx, "canvas", { value: { getContext: () => ctx, width, height }, configurable: true });
  const plugins = { ...config.options.plugins, tooltip: { enabled: false } };
  const fixed = { ...config.options, plugins, responsive: false, devicePixelRatio: 1, events: [] };
  const chart = new Chart(ctx.canvas, { ...config, options: fixed, platform: Chart.platforms.BasicPlatform });
  const text = ctx.getSerializedSvg(true);
  chart.destroy();
  return text;
}

function quoted(cells) {
  const one = (text) => `"${(/^[=+\-@\t\r]/.test(text) ? "'" : "") + text.replaceAll('"', '""')}"`;
  return cells.map((text) => one(String(text))).join(",") + "\n";
}

function download(name, content, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
