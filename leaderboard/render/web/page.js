"use strict";
/* Sorts and filters the tables, and draws the charts. The whole state is in `state` and in the address behind "#". */
const MOST = 5;
const FUSED = ["yes", "as a bias"];
const WINDOW = [1, 2, 4, 8, 16, 32];
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const all = (query, from = document) => [...from.querySelectorAll(query)];
const initial = {
  suite: data[0].suite, sort: "", down: "", find: "", show: "main", step: "", learned: "", fused: "", cache: "", rope: "", checked: "", only: "", pick: "",
  theme: "", weights: "", from: "1", to: "", recipe: "", task: "", card: "",
};
const LIVE = ["weights", "from", "to", "recipe", "step", "learned", "fused", "cache", "rope", "checked"];
let state = { ...initial };
let live = new Map();

const root = document.documentElement;
root.classList.add("script");
const section = () => all(".board").find((one) => one.dataset.suite === state.suite);
const board = () => data.find((one) => one.suite === state.suite);
const picked = () => (state.pick ? state.pick.split("|").filter((name) => name in board().rows) : []);
const rowsOf = (from) => all("tr[data-name]", from);
const visibleNames = () => rowsOf(section()).filter((row) => !row.hidden).map((row) => row.dataset.name);
const recipe = () => board().recipes.find((one) => one.label === state.recipe) ?? board().recipes[0];
const changed = () => LIVE.some((key) => state[key] !== initial[key]);

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  state = { ...initial };
  for (const [key, value] of given) if (key in state) state[key] = value;
  if (!board()) state.suite = data[0].suite;
  if (!given.has("pick")) {
    const rows = rowsOf(section()).map((row) => row.dataset.name);
    state.pick = [...new Set([...rows.slice(0, 4), ...rows.filter((name) => name === "rope")])].join("|");
  }
}

function writeAddress() {
  const kept = Object.entries(state).filter(([key, value]) => value !== initial[key] || key === "pick");
  history.replaceState(null, "", "#" + new URLSearchParams(kept));
}

function change(values) {
  state = { ...state, ...values };
  writeAddress();
  update();
}

/* Weight of each task; 1 where the address says nothing that is a number. */
function weights() {
  const given = state.weights.split("|");
  const weight = (n) => (given[n] === undefined || given[n] === "" || !(Number(given[n]) >= 0) ? 1 : Math.min(4, Number(given[n])));
  return Object.fromEntries(Object.keys(board().tasks).map((task, n) => [task, weight(n)]));
}

/* Whether an encoding has the properties that are asked for. */
function eligible(row) {
  const own = board().rows[row.dataset.name];
  return (!state.learned || !row.dataset.failed) && (!state.fused || FUSED.includes(own.about["fused attention"])) &&
    (!state.cache || own.about["KV cache"] === "yes") && (!state.rope || own.about.model === "RoPE checkpoint") &&
    (!state.checked || own.about["compared with"] !== "not checked") &&
    (!(Number(state.step) > 0) || (own.step_time !== null && own.step_time <= Number(state.step)));
}

function visible(row) {
  const text = [row.dataset.name, ...Object.values(board().rows[row.dataset.name].about)].join(" ").toLowerCase();
  return eligible(row) && state.find.toLowerCase().split(/\s+/).every((word) => text.includes(word)) &&
    (!state.only || picked().includes(row.dataset.name));
}

function updateLive() {
  live = new Map();
  if (!changed()) return;
  const groups = [...section().querySelector("table").tBodies].map((body) => rowsOf(body).filter(eligible).map((row) => row.dataset.name));
  const choice = { weights: weights(), from: Number($("from").value) || 1, to: Number($("to").value) || Infinity, recipe: state.recipe };
  live = liveRows(board(), choice, groups);
}

/* Text and number to sort by of a cell, of what was chosen; null where the board's own stay. */
function liveCell(own, key) {
  const short = (value, digits = 2) => (value === null || value === undefined ? "–" : value.toFixed(digits).replace(/^0\./, "."));
  const task = key.startsWith("score.") ? key.slice(6) : "";
  if (task) return own ? [short(own.tasks[task]), own.tasks[task] ?? ""] : ["–", ""];
  const cells = {
    score: () => [short(own.score, 3), own.score],
    rank_low: () => [own.low === null ? "–" : own.low === own.high ? `${own.low}` : `${own.low}–${own.high}`, own.low ?? ""],
    p_first: () => [short(own.first), own.first ?? ""],
    weighted_low: () => ["–", ""],
    rate_low: () => (own.band ? [`${short(own.band[0])}–${short(own.band[1])}`, own.band[0]] : ["–", ""]),
    low: () => (own.from === null ? ["–", ""] : [`${short(own.from)}–${short(own.to)}`, own.from]),
  };
  return key in cells ? (own ? cells[key]() : ["–", ""]) : null;
}

function fillCells(row) {
  for (const cell of all("td[data-key]", row)) {
    cell.dataset.text ??= cell.textContent;
    cell.dataset.number ??= cell.dataset.value;
    const [text, value] = (changed() && liveCell(live.get(row.dataset.name), cell.dataset.key)) || [cell.dataset.text, cell.dataset.number];
    if (cell.textContent !== text) cell.textContent = text;
    cell.dataset.value = value;
  }
}

function sortRows(body) {
  const rows = rowsOf(body);
  rows.forEach((row, place) => { row.dataset.place ??= place; });
  const place = (row) => (changed() ? -(live.get(row.dataset.name)?.score ?? -1) : Number(row.dataset.place));
  const cell = (row) => all("[data-key]", row).find((one) => one.dataset.key === state.sort)?.dataset.value ?? "";
  rows.sort((a, b) => {
    const [x, y] = [cell(a), cell(b)];
    if (!state.sort || x === y) return place(a) - place(b) || a.dataset.place - b.dataset.place;
    if (x === "" || y === "") return x === "" ? 1 : -1;
    const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
    return state.down ? -order : order;
  });
  body.append(...rows);
}

function updateTable() {
  all(".board, .verdict").forEach((one) => { one.hidden = one.dataset.suite !== state.suite; });
  const table = section().querySelector("table");
  table.dataset.show = `main ${state.show}`;
  let count = 0;
  for (const body of table.tBodies) {
    rowsOf(body).forEach(fillCells);
    sortRows(body);
    let own = 0;
    for (const row of rowsOf(body)) {
      const chosen = picked().includes(row.dataset.name);
      row.hidden = !visible(row);
      row.classList.toggle("chosen", chosen);
      row.querySelector("input").checked = chosen;
      own += !row.hidden;
    }
    body.hidden = !own;
    count += own;
  }
  for (const head of all("thead th[data-key]", table)) {
    if (head.dataset.key === state.sort) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
  $("count").textContent = `${count} of ${rowsOf(table).length} encodings`;
}

/* Who is first under the choice, in one sentence. */
function updateAnswer() {
  const scored = rowsOf(section().querySelector("tbody")).map((row) => row.dataset.name).filter((name) => live.has(name));
  const first = scored.sort((a, b) => live.get(b).score - live.get(a).score).slice(0, 3);
  const said = first.map((name) => {
    const own = live.get(name);
    return `${name} ${near(own.score)}${own.first === null ? "" : ` (P(first) ${near(own.first)})`}`;
  });
  $("answer").textContent = !changed() ? `As ranked: equal weights, all lengths beyond L, ${board().recipes.some((one) => one.rate) ? "a tuned" : "one"} learning rate.`
    : said.length ? `By your choice: ${said.join(", ")}. Rank and P(first) are of the rows that fit it, from 1,000 resamples of the blocks; the board's own ranks use a test.`
      : "No encoding has a score for your choice.";
  $("answer").classList.toggle("chosen", changed());
}

function fill(select, values, chosen) {
  select.replaceChildren(...values.map(([value, text]) => new Option(text, value)));
  select.value = values.some(([value]) => value === chosen) ? chosen : values[0][0];
}

function updateControls() {
  for (const id of ["suite", "find", "show", "step"]) if ($(id) && $(id).value !== state[id]) $(id).value = state[id];
  for (const id of ["learned", "fused", "cache", "rope", "checked", "only"]) $(id).checked = Boolean(state[id]);
  const own = board(), longest = Math.max(1, ...Object.values(own.recipes[0].at).flat(2).filter(Boolean));
  const bounds = WINDOW.filter((x) => x < longest * 0.95);
  fill($("recipe"), own.recipes.map((one, n) => [n ? one.label : "", one.label]), state.recipe);
  fill($("from"), bounds.map((x) => [`${x}`, x === 1 ? "L" : `${x} L`]), state.from);
  fill($("to"), [["", "the longest"], ...bounds.filter((x) => x > Number(state.from)).map((x) => [`${x}`, `${x} L`])], state.to);
  fill($("task"), Object.entries(own.tasks), state.task);
  if ($("weights").dataset.suite !== own.suite) {
    $("weights").dataset.suite = own.suite;
    $("weights").replaceChildren(...Object.entries(own.tasks).map(([task, title]) => {
      const label = cell("label", title), slider = document.createElement("input");
      Object.assign(slider, { type: "range", min: 0, max: 4, step: 0.5, name: task });
      slider.addEventListener("input", () => {
        const values = all("input", $("weights")).map((one) => one.value);
        change({ weights: values.every((value) => value === "1") ? "" : values.join("|") });
      });
      label.append(slider, cell("span", ""));
      return label;
    }));
  }
  Object.values(weights()).forEach((weight, n) => {
    const label = $("weights").children[n];
    label.querySelector("input").value = weight;
    label.querySelector("span").textContent = `× ${weight}`;
  });
  const dark = state.theme ? state.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  if (state.theme) root.dataset.theme = state.theme;
  else delete root.dataset.theme;
  $("theme").textContent = dark ? "Light" : "Dark";
  $("theme").onclick = () => change({ theme: dark ? "light" : "dark" });
}

function mainChart() {
  const names = picked().slice(0, MOST);
  return curvesConfig(board(), recipe(), $("task").value, names, visibleNames().filter((name) => !names.includes(name)));
}

function updateCharts() {
  const config = mainChart(), names = picked().slice(0, MOST);
  draw($("curves"), config);
  $("curves").setAttribute("aria-label", `${config.options.plugins.title.text}, of ${names.join(", ") || "no encoding"}`);
  const shown = rowsOf(section().querySelector("tbody")).filter((row) => !row.hidden).map((row) => ({ name: row.dataset.name, ...board().rows[row.dataset.name] }));
  const score = (one) => (changed() ? live.get(one.name)?.score : one.score) ?? null;
  const scatter = (id, make, x, y) => {
    const points = shown.map((one) => ({ name: one.name, colour: one.colour, x: x(one), y: y(one) })).filter((one) => one.x !== null && one.y !== null);
    $(id).parentElement.hidden = $(`${id}-title`).hidden = !points.length;
    if (points.length) draw($(id), make(points, names, (name) => change({ card: name })));
  };
  scatter("cost", costConfig, (one) => one.step_time, score);
  scatter("text", textConfig, score, (one) => one.text);
}

function cell(kind, text) {
  const made = document.createElement(kind);
  made.textContent = text;
  return made;
}

function curveTable() {
  const task = $("task").value, curves = picked().map((name) => [name, curveOf(recipe(), task, name)]).filter(([, own]) => own);
  return [["encoding", ...(curves[0]?.[1].at ?? [])], ...curves.map(([name, own]) => [name, ...own.mean.map(near)])];
}

function updateNumbers() {
  const table = document.createElement("table");
  table.createCaption().textContent = `${board().tasks[$("task").value]}, score by length in multiples of L`;
  curveTable().forEach((cells, n) => table.insertRow().append(...cells.map((text, m) => cell(n && m ? "td" : "th", text))));
  $("numbers").replaceChildren(table);
}

function updateCard() {
  const name = state.card in board().rows ? state.card : picked()[0], about = board().rows[name];
  $("card").hidden = !about;
  if (!about) return;
  const list = document.createElement("dl");
  for (const [key, text] of Object.entries(about.about)) {
    const link = { paper: about.link, "authors' code": text.startsWith("https://") ? text : "" }[key];
    const value = cell("dd", link ? "" : text);
    if (link) value.append(Object.assign(cell("a", text), { href: link }));
    list.append(cell("dt", key), value);
  }
  if (about.step_time !== null) list.append(cell("dt", "step time"), cell("dd", `${near(about.step_time)} × nope`));
  $("card-text").replaceChildren(cell("h2", name), list);
  $("attention").parentElement.hidden = !about.attention;
  if (about.attention) draw($("attention"), attentionConfig(about.attention, about.colour));
}

function update() {
  updateControls();
  updateLive();
  updateTable();
  updateAnswer();
  updateCharts();
  updateNumbers();
  updateCard();
}

function pick(name) {
  const now = picked();
  const next = now.includes(name) ? now.filter((one) => one !== name) : [...now, name].slice(-MOST);
  change({ pick: next.join("|") });
}

function tableCsv() {
  const table = section().querySelector("table");
  const cells = (row) => [...row.cells].slice(1).filter((one) => one.offsetParent !== null);
  const rows = [table.tHead.rows[0], ...rowsOf(table).filter((row) => !row.hidden)];
  return rows.map((row) => quoted(cells(row).map((one) => one.textContent.trim()))).join("");
}

for (const id of ["find", "step"]) $(id).addEventListener("input", () => change({ [id]: $(id).value }));
for (const id of ["show", "recipe", "from", "to", "task"]) $(id).addEventListener("change", () => change({ [id]: $(id).value }));
$("suite")?.addEventListener("change", () => change({ ...initial, theme: state.theme, suite: $("suite").value, pick: state.pick }));
for (const id of ["learned", "fused", "cache", "rope", "checked", "only"]) $(id).addEventListener("change", () => change({ [id]: $(id).checked ? "1" : "" }));
all("form").forEach((form) => form.addEventListener("submit", (event) => event.preventDefault()));
$("reset").addEventListener("click", () => change(Object.fromEntries(LIVE.map((key) => [key, initial[key]]))));
$("csv").addEventListener("click", () => download(`${state.suite}.csv`, tableCsv(), "text/csv"));
$("png").addEventListener("click", () => $("curves").toBlob((blob) => download(`${$("task").value}.png`, blob)));
$("svg").addEventListener("click", () => download(`${$("task").value}.svg`, asSvg(mainChart(), 900, 450), "image/svg+xml"));
$("chart-csv").addEventListener("click", () => download(`${$("task").value}.csv`, curveTable().map(quoted).join(""), "text/csv"));
$("share").addEventListener("click", async () => {
  writeAddress();
  await navigator.clipboard?.writeText(location.href).catch(() => {});
  $("share").textContent = "Copied";
  setTimeout(() => { $("share").textContent = "Copy link"; }, 1500);
});
for (const head of all("thead th[data-key]")) {
  head.addEventListener("click", () => {
    const key = head.dataset.key, again = state.sort === key;
    const down = again ? !state.down : head.classList.contains("number") && !["rank_low", "step_time", "text"].includes(key);
    change({ sort: key, down: down ? "1" : "" });
  });
}
for (const row of all("tr[data-name]")) {
  row.querySelector("input").addEventListener("change", () => pick(row.dataset.name));
  row.querySelector(".name").addEventListener("click", () => {
    change({ card: row.dataset.name });
    $("card").scrollIntoView({ block: "nearest" });
  });
}
addEventListener("hashchange", () => { readAddress(); update(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", update);
$("tune").open = !matchMedia("(max-width: 700px)").matches;
readAddress();
update();
