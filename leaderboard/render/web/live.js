"use strict";
/* Scores, ranks and P(first) for weights of tasks, a window of lengths and a recipe, from scores by block and length. */
const REPLICATES = 1000;
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const known = (values) => values.filter((value) => value !== null);

/* Random numbers from 0 to 1, the same at each visit (mulberry32). */
function generator(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/* Weight of each length: the part of the window, in log l, between the length before it and itself. */
function lengthWeights(at, from, to) {
  let last = Math.log(from);
  return at.map((length) => {
    const here = Math.log(Math.min(Math.max(length, from), to)), weight = here - last;
    last = here;
    return weight;
  });
}

/* Score of one run: the mean over the window, at least 0; null if no test length is in it. */
function runScore(values, at, from, to) {
  if (!values) return null;
  const weights = lengthWeights(at, from, to), total = weights.reduce((a, b) => a + b, 0);
  if (total < 1e-6) return null;
  return Math.min(1, Math.max(0, weights.reduce((sum, weight, n) => sum + weight * values[n], 0) / total / 1000));
}

/* Task → encoding → score of each block. */
function taskScores(recipe, from, to) {
  const found = {};
  for (const [task, own] of Object.entries(recipe.values)) {
    const scores = (blocks) => blocks.map((values, n) => runScore(values, recipe.at[task][n], from, to));
    found[task] = Object.fromEntries(Object.entries(own).map(([name, blocks]) => [name, scores(blocks)]));
  }
  return found;
}

/* Weighted mean over tasks in each block of an encoding; null where a task with a weight lacks. */
function blockMeans(scores, weights, name) {
  const used = Object.entries(weights).filter(([, weight]) => weight > 0);
  const total = used.reduce((sum, [, weight]) => sum + weight, 0);
  const count = Math.max(0, ...used.map(([task]) => scores[task]?.[name]?.length ?? 0));
  return Array.from({ length: count }, (_, block) => {
    const values = used.map(([task]) => scores[task]?.[name]?.[block] ?? null);
    return values.includes(null) ? null : values.reduce((sum, value, n) => sum + value * used[n][1], 0) / total;
  });
}

/* Block means without what all encodings share in a block, as leaderboard/stats/ranks.py has it. */
function centred(rows) {
  const count = Math.max(0, ...rows.map((row) => row.length)), shared = Array(count).fill(0);
  const several = shared.map((_, b) => rows.filter((row) => row[b] !== null).length > 1);
  for (let round = 0; round < 100; round++) {
    const means = rows.map((row) => mean(known(row.map((value, b) => (value === null ? null : value - shared[b])))));
    const steps = shared.map((own, b) => {
      const left = known(rows.map((row, r) => (row[b] === null ? null : row[b] - own - means[r])));
      return several[b] ? mean(left) : 0;
    });
    steps.forEach((step, b) => { shared[b] += step; });
    if (Math.max(...steps.map(Math.abs)) < 1e-9) break;
  }
  const middle = mean(shared.filter((_, b) => several[b]));
  return rows.map((row) => row.map((value, b) => (value === null || !several[b] ? value : value - shared[b] + middle)));
}

/* Share of resamples of the blocks in which each row is first, 95 % intervals of its rank and mean; null for a single block. */
function resampled(rows) {
  const count = rows[0].length, random = generator(1), ranks = rows.map(() => Array(rows.length).fill(0)), drawnMeans = rows.map(() => []);
  if (count < 2) return rows.map(() => ({ first: null, low: null, high: null, from: null, to: null }));
  const plain = rows.map((row) => mean(known(row)));
  for (let k = 0; k < REPLICATES; k++) {
    const drawn = Array.from({ length: count }, () => Math.floor(random() * count));
    const means = rows.map((row, r) => {
      const values = known(drawn.map((b) => row[b]));
      return values.length ? mean(values) : plain[r];
    });
    means.forEach((value, row) => drawnMeans[row].push(value));
    [...means.keys()].sort((a, b) => means[b] - means[a]).forEach((row, place) => { ranks[row][place]++; });
  }
  const quantile = (own, share) => {
    let sum = 0;
    return 1 + own.findIndex((times) => (sum += times) >= share * REPLICATES);
  };
  return ranks.map((own, row) => {
    const sorted = drawnMeans[row].sort((a, b) => a - b), at = (share) => sorted[Math.floor(share * REPLICATES)];
    return { first: own[0] / REPLICATES, low: quantile(own, 0.025), high: quantile(own, 0.975), from: at(0.025), to: at(0.975) };
  });
}

/* Encoding → score, rank interval, P(first), band over learning rates and score by task.

   groups: lists of encodings that are ranked among themselves. */
function liveRows(board, choice, groups) {
  const recipe = board.recipes.find((one) => one.label === choice.recipe) ?? board.recipes[0];
  const scores = taskScores(recipe, choice.from, choice.to);
  const others = board.recipes.filter((one) => one.rate).map((one) => taskScores(one, choice.from, choice.to));
  const found = new Map();
  for (const names of groups) {
    const rows = names.map((name) => ({ name, blocks: blockMeans(scores, choice.weights, name) }));
    const ranked = rows.filter((row) => known(row.blocks).length);
    if (!ranked.length) continue;
    const blocks = centred(ranked.map((row) => row.blocks)), places = resampled(blocks);
    ranked.forEach((row, r) => {
      const band = others.map((one) => known(blockMeans(one, choice.weights, row.name))).filter((one) => one.length).map(mean);
      const tasks = Object.entries(scores).map(([task, own]) => [task, known(own[row.name] ?? [])]);
      found.set(row.name, { score: mean(known(blocks[r])), ...places[r], band: band.length > 1 ? [Math.min(...band), Math.max(...band)] : null,
        tasks: Object.fromEntries(tasks.filter(([, own]) => own.length).map(([task, own]) => [task, mean(own)])) });
    });
  }
  return found;
}

/* Mean, lowest and highest block of an encoding at the lengths of the first block; null without runs. */
function curveOf(recipe, task, name) {
  const blocks = recipe.values[task]?.[name], at = recipe.at[task]?.find(Boolean);
  if (!blocks || !at) return null;
  const at_length = (values, own, x) => {
    const n = own.findIndex((length) => length >= x - 1e-9);
    if (n <= 0) return values[n < 0 ? values.length - 1 : 0];
    return values[n - 1] + ((values[n] - values[n - 1]) * Math.log(x / own[n - 1])) / Math.log(own[n] / own[n - 1]);
  };
  const drawn = blocks.map((values, n) => values && at.map((x) => at_length(values, recipe.at[task][n], x) / 1000)).filter(Boolean);
  const over = (reduce) => at.map((_, n) => reduce(drawn.map((values) => values[n])));
  return drawn.length ? { at, mean: over(mean), low: over((v) => Math.min(...v)), high: over((v) => Math.max(...v)) } : null;
}
