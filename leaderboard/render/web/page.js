"use strict";
/* Sorts and filters the tables, and draws the charts. The whole state is in `state` and in the address behind "#". */
const MOST = 5;
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const all = (query, from = document) => [...from.querySelectorAll(query)];
const initial = { suite: data[0].suite, sort: "", down: "", find: "", show: "main", step: "", learned: "", only: "", pick: "", theme: "" };
let state = { ...initial };
const charts = {};

const root = document.documentElement;
root.classList.add("script");
const section = () => all(".board").find((one) => one.dataset.suite === state.suite);
const board = () => data.find((one) => one.suite === state.suite);
const picked = () => (state.pick ? state.pick.split("|").filter((name) => name in board().rows) : []);
const rowsOf = (from) => all("tr[data-name]", from);
const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
const near = (value) => (value === null || value === undefined ? "–" : value.toFixed(2).replace(/^-?0\.00$/, "0.00"));

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  state = { ...initial };
  for (const [key, value] of given) if (key in state) state[key] = value;
  if (!board()) state.suite = data[0].suite;
  if (!given.has("pick")) {
    const rows = rowsOf(section()).map((row) => row.dataset.name);
    state.pick = [...new Set([...rows.slice(0, 3), ...rows.filter((name) => name === "rope")])].join("|");
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

function visible(row) {
  const about = board().rows[row.dataset.name];
  const text = [row.dataset.name, ...Object.values(about.about)].join(" ").toLowerCase();
  const time = about.numbers.step_time;
  return state.find.toLowerCase().split(/\s+/).every((word) => text.includes(word)) &&
    (!state.learned || !row.dataset.failed) && (!state.only || picked().includes(row.dataset.name)) &&
    (!(Number(state.step) > 0) || (time !== null && time <= Number(state.step)));
}

function sortRows(body) {
  const rows = rowsOf(body);
  rows.forEach((row, place) => { row.dataset.place ??= place; });
  const cell = (row) => all("[data-key]", row).find((one) => one.dataset.key === state.sort)?.dataset.value ?? "";
  rows.sort((a, b) => {
    const [x, y] = [cell(a), cell(b)];
    if (!state.sort || x === y) return a.dataset.place - b.dataset.place;
    if (x === "" || y === "") return x === "" ? 1 : -1;
    const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
    return state.down ? -order : order;
  });
  body.append(...rows);
}

function updateTable() {
  all(".board").forEach((one) => { one.hidden = one !== section(); });
  const table = section().querySelector("table");
  table.dataset.show = `main ${state.show}`;
  let count = 0;
  for (const body of table.tBodies) {
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

function updateControls() {
  for (const id of ["suite", "find", "show", "step"]) if ($(id) && $(id).value !== state[id]) $(id).value = state[id];
  for (const id of ["learned", "only"]) $(id).checked = Boolean(state[id]);
  const dark = state.theme ? state.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  if (state.theme) root.dataset.theme = state.theme;
  else delete root.dataset.theme;
  $("theme").textContent = dark ? "Light" : "Dark";
  $("theme").onclick = () => change({ theme: dark ? "light" : "dark" });
}

function options(x, y) {
  const axis = (more) => ({ ticks: { color: css("--muted"), ...more.ticks }, grid: { color: css("--line") }, ...more.rest,
    title: { display: Boolean(more.title), text: more.title, color: css("--muted") } });
  return { animation: false, maintainAspectRatio: false, scales: { x: axis(x), y: axis(y) } };
}

function draw(id, canvas, config) {
  charts[id]?.destroy();
  charts[id] = new Chart(canvas, config);
}

function updateCharts() {
  const names = picked().slice(0, MOST);
  const shown = rowsOf(section()).filter((row) => !row.hidden).map((row) => row.dataset.name);
  const tasks = Object.entries(board().tasks);
  all(".panel:not(.wide)").slice(tasks.length).forEach((one) => one.remove());
  while (all(".panel:not(.wide)").length < tasks.length) {
    const panel = document.createElement("div");
    panel.className = "panel";
    panel.append(document.createElement("canvas"));
    $("panels").append(panel);
  }
  all(".panel:not(.wide) canvas").forEach((canvas, place) => {
    const [task, own] = tasks[place];
    const points = (values) => own.at.map((x, n) => ({ x, y: values[n] }));
    const line = (name, strong) => ({ label: name, data: points(own.mean[name]), pointRadius: 0, borderWidth: strong ? 2.5 : 0.7,
      borderColor: strong ? board().rows[name].colour : css("--line"), order: strong ? 0 : 1, pointHitRadius: strong ? 8 : 0 });
    const others = shown.filter((name) => !names.includes(name) && name in own.mean);
    const drawn = [...names.filter((name) => name in own.mean).map((name) => line(name, true)), ...others.map((name) => line(name, false))];
    const ticks = { callback: (x) => (x === 1 ? "L" : `${x} L`) };
    const config = options({ rest: { type: "logarithmic" }, ticks }, { rest: { min: -0.02, max: 1.02 } });
    config.scales.y.afterBuildTicks = (scale) => { scale.ticks = [0, 0.25, 0.5, 0.75, 1].map((value) => ({ value })); };
    config.scales.x.afterBuildTicks = (scale) => { scale.ticks = [0.25, 0.5, 1, 2, 4, 8, 16, 32, 64].filter((x) => x >= scale.min && x <= scale.max * 1.01).map((value) => ({ value })); };
    config.plugins = {
      title: { display: true, text: own.title, color: css("--text"), align: "start" },
      legend: { labels: { color: css("--text"), boxWidth: 14, boxHeight: 1, filter: (item) => names.includes(item.text) } },
      tooltip: { mode: "nearest", filter: (item) => names.includes(item.dataset.label),
        callbacks: { title: (items) => (items.length ? `${items[0].parsed.x} L` : ""),
          label: (item) => `${item.dataset.label}: ${near(item.parsed.y)} (${near(own.low[item.dataset.label][item.dataIndex])} to ${near(own.high[item.dataset.label][item.dataIndex])})` } },
    };
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${own.title}: exact match by length of ${names.join(", ")}`);
    draw(task + place, canvas, { type: "line", data: { datasets: drawn }, options: { ...config, parsing: false } });
  });
  const points = shown.map((name) => ({ name, x: board().rows[name].numbers.step_time, y: board().rows[name].numbers.score }))
    .filter((point) => point.x !== null && point.y !== null);
  const config = options({ rest: { type: "logarithmic" }, title: "step time, nope = 1" }, { rest: { min: 0, max: 1 }, title: "score" });
  config.plugins = { legend: { display: false }, tooltip: { callbacks: { label: (item) => `${item.raw.name}: ${near(item.raw.y)}, ${near(item.raw.x)} ×` } } };
  config.onClick = (event, found) => { if (found.length) showCard(points[found[0].index].name); };
  draw("cost", $("cost"), { type: "scatter", options: config, data: { datasets: [{ data: points, pointHitRadius: 6,
    pointRadius: points.map((point) => (names.includes(point.name) ? 7 : 4)),
    backgroundColor: points.map((point) => (names.includes(point.name) ? board().rows[point.name].colour : css("--muted"))) }] } });
  $("cost").parentElement.hidden = !points.length;
}

function cell(kind, text) {
  const made = document.createElement(kind);
  made.textContent = text;
  return made;
}

function updateNumbers() {
  $("numbers").replaceChildren(...Object.values(board().tasks).map((own) => {
    const table = document.createElement("table");
    table.createCaption().textContent = `${own.title}, by length in multiples of L`;
    const head = table.insertRow();
    head.append(cell("th", "encoding"), ...own.at.map((x) => cell("th", x)));
    for (const name of picked().filter((one) => one in own.mean)) {
      const row = table.insertRow();
      row.append(cell("th", name), ...own.mean[name].map((value) => cell("td", near(value))));
    }
    return table;
  }));
}

function showCard(name) {
  const about = board().rows[name];
  const list = document.createElement("dl");
  for (const [key, text] of Object.entries(about.about)) {
    const link = { paper: about.link, "authors' code": text.startsWith("https://") ? text : "" }[key];
    const value = cell("dd", link ? "" : text);
    if (link) {
      const made = cell("a", text);
      made.href = link;
      value.append(made);
    }
    list.append(cell("dt", key), value);
  }
  $("card").replaceChildren(cell("h2", name), list);
  $("card").hidden = false;
}

function update() {
  updateControls();
  updateTable();
  updateCharts();
  updateNumbers();
}

function pick(name) {
  const now = picked();
  const next = now.includes(name) ? now.filter((one) => one !== name) : [...now, name].slice(-MOST);
  change({ pick: next.join("|") });
}

function asCsv() {
  const table = section().querySelector("table");
  const cells = (row) => [...row.cells].slice(1).filter((one) => one.offsetParent !== null);
  const quoted = (text) => `"${(/^[=+\-@\t\r]/.test(text) ? "'" : "") + text.replaceAll('"', '""')}"`;
  const rows = [table.tHead.rows[0], ...rowsOf(table).filter((row) => !row.hidden)];
  return rows.map((row) => cells(row).map((one) => quoted(one.textContent.trim())).join(",")).join("\n") + "\n";
}

for (const id of ["find", "step"]) $(id).addEventListener("input", () => change({ [id]: $(id).value }));
$("show").addEventListener("change", () => change({ show: $("show").value }));
$("suite")?.addEventListener("change", () => { $("card").hidden = true; change({ suite: $("suite").value, sort: "", down: "" }); });
for (const id of ["learned", "only"]) $(id).addEventListener("change", () => change({ [id]: $(id).checked ? "1" : "" }));
$("controls").addEventListener("submit", (event) => event.preventDefault());
$("csv").addEventListener("click", () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([asCsv()], { type: "text/csv" }));
  link.download = `${state.suite}.csv`;
  link.click();
});
$("share").addEventListener("click", async () => {
  writeAddress();
  await navigator.clipboard?.writeText(location.href).catch(() => {});
  $("share").textContent = "Copied";
  setTimeout(() => { $("share").textContent = "Copy link"; }, 1500);
});
for (const head of all("thead th[data-key]")) {
  head.addEventListener("click", () => {
    const key = head.dataset.key, again = state.sort === key;
    const down = again ? !state.down : head.classList.contains("number") && !["rank_low", "weighted_low", "step_time"].includes(key);
    change({ sort: key, down: down ? "1" : "" });
  });
}
for (const row of all("tr[data-name]")) {
  row.querySelector("input").addEventListener("change", () => pick(row.dataset.name));
  row.querySelector(".name").addEventListener("click", () => showCard(row.dataset.name));
}
addEventListener("hashchange", () => { readAddress(); update(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", update);
readAddress();
update();
