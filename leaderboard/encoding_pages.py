"""Encoding pages: what each is, what it scored at every length and seed, what its runs were made with, how to run it again."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.results import Result

from . import tables
from .cards import Card, Measured
from .grid import Column, Grid
from .markdown import address as web_address
from .markdown import code, escape, picture, share, table
from .names import page_name
from .plot import file_name
from .statistics import in_distribution, out_of_distribution
from .summary import BASE, Row, separated

FOLDER = "encodings"
BOARD = "README.md"
CLASSES = {
    "standard": "standard: saw no length past L in training",
    "longer": "saw lengths past L, in training or in a stage after it; ranked apart",
    "task-aware": "task-aware, looks at what the tokens mean; ranked apart",
}
PROPERTIES = {
    "unique": "every position has a code of its own",
    "linear": "the code of p + k is one linear map of the code of p, or attention hangs on distances, and on nothing else",
    "defined_past_train": "defined past the training lengths, with finite numbers",
    "deterministic": "deterministic in evaluation",
    "several_dimensions": "can be given positions on several axes",
}
BUSY_TEXT = "The machine was busy with something else: times are too long; nothing else is touched by it."


@dataclass(frozen=True)
class Entry:
    """One encoding on one version of a suite."""

    grid: Grid
    row: Row
    table: Sequence[Row] = ()
    """All rows of its table, this one among them."""

    @property
    def runs(self) -> list[Result]:
        return [run for cell in self.row.cells.values() for run in cell.runs]


def address(encoding: str, suffix: str = ".md") -> str:
    """Of a page, as seen from the board."""
    return f"{FOLDER}/{page_name(encoding)}{suffix}"


def curves(suite: str, encoding: str, look: str = "light") -> str:
    """Path of a page's picture, as seen from the board. In a folder that cannot be the name of another picture's."""
    return f"pictures/{suite}/{FOLDER}/{file_name(page_name(encoding), 'svg', look)}"


def render(encoding: str, suites: Mapping[str, Sequence[Entry]], card: Card) -> str:
    """One page.

    Arguments:
        suites: suite → its versions with runs of this encoding, newest first.
    """
    newest = max((entries[0] for entries in suites.values()), key=lambda e: max(run.finished for run in e.runs))
    parts = [f"# {escape(encoding)}", f"[← the board](../{BOARD})", *what(newest, card)]
    if card.measured:
        parts += measured(card.measured, {run.encoding.source_sha256 for run in newest.runs})
    for entries in suites.values():
        parts += [*suite(entries[0]), *(part for entry in entries[1:] for part in older(entry))]
    return "\n\n".join(parts) + "\n"


def what(entry: Entry, card: Card) -> list[str]:
    """What the encoding is, as its runs and its card tell."""
    record = entry.runs[-1].encoding if entry.row.record is None else entry.row.record
    settings = ", ".join(f"{k} = {v}" for k, v in sorted(record.settings.items()))
    declared = card.declared
    by = f"{escape(declared.authors, 300)}, " if declared else ""
    paper, found = escape(record.title, 300), web_address(record.link)
    lines = [f"- **Formula**: {escape(declared.formula, 2000)}"] if declared else []
    lines += [f"- **Past the training length**: {escape(declared.past, 2000)}"] if declared else []
    if declared and re.search(r"\bN\b", f"{declared.formula} {declared.past}"):
        lines.append("- **N** is the length announced for a sequence, in tokens: in a test, what examples of that length take")
    if declared and declared.stage_share:
        lines.append(
            f"- **Extra stage**: {100 * declared.stage_share:g} % of the steps, at lengths up to L′. From then on every "
            "sequence is announced as one of length L′, those within L too: read N = L′ above, whatever the length"
        )
    lines.append(f"- **Paper**: {by}{f'[{paper}]({found})' if found else paper}, {record.year}")
    lines.append(f"- **Family**: {escape(record.family)}")
    lines.append(f"- **Ranking class**: {escape(CLASSES.get(entry.row.ranking, entry.row.ranking), 200)}")
    lines += [f"- **Settings**: {escape(settings, 500)}"] if settings else []
    lines.append(f"- **Parameters** of its own: {tables.parameters(entry.row)}")
    if declared:
        lines.append(f"- **Hooks**: {escape(', '.join(declared.hooks) or 'none', 200)}")
        lines.append(f"- **Shift-invariant**: {yes(declared.shift_invariant)}. **Random**: {yes(declared.random)}.")
        lines.append(f"- **Read from**: {escape(declared.provenance, 2000)}")
    return ["\n".join(lines)]


def measured(found: Measured, sources: set[str]) -> list[str]:
    """Properties and costs."""
    where = (
        f"on one thread of {escape(found.device)}, torch {escape(found.versions.get('torch', '?'))}, {escape(found.finished)}"
    )
    about = (
        "Of an untrained instance whose parameters were shaken a little, over 96 positions. The *code* of a position is what "
        "is added to the embedding there, and the attention that a fixed query pays to a fixed key there."
    )
    properties = "\n".join(f"- {PROPERTIES.get(k, escape(k))}: {yes(v)}" for k, v in found.properties.items())
    parts = ["## Measured", about, properties]
    costs = [
        [f"{c.length:,}", f"{c.step_ms:.2f}", f"{c.step_ratio:.2f}", f"{c.peak_mb:.1f}", f"{c.peak_ratio:.2f}"]
        for c in found.costs
    ]
    if costs:
        header = ["tokens (L, 2 L, 4 L)", "step, ms", f"× {BASE}", "peak memory, MiB", f"× {BASE}"]
        text = f"A training step of suite {escape(found.suite)} on {escape(found.task)}, beside {BASE}'s in the same minutes:"
        parts += [text, table(header, costs, left=0)]
    changed = "" if found.source_sha256 in sources else " Its source was another than that of the runs below."
    busy = f" {BUSY_TEXT}" if found.busy else ""
    return [*parts, f"Measured {where}{commit(found.commit)}.{changed}{busy}"]


def suite(entry: Entry) -> list[str]:
    """The newest version of one suite: curves, numbers, runs, and how to make them again."""
    grid, row = entry.grid, entry.row
    parts = [f"## Suite {escape(grid.name)}", standing(entry), *against(entry), by_task(entry)]
    light, dark = (f"../{curves(grid.name, row.name, look)}" for look in ("light", "dark"))
    parts.append(picture(f"{row.name}: exact match by length, on each task", light, dark))
    for column in grid.columns:
        if row.cells[column.task].runs:
            parts += by_length(entry, column)
    parts += [f"### Runs of suite {escape(grid.name)}", *runs(entry)]
    return [*parts, f"### One number again, of suite {escape(grid.name)}", *again(entry)]


def standing(entry: Entry) -> str:
    row, grid = entry.row, entry.grid
    rank = f"Rank {row.rank}" if row.rank else "Not ranked: on some task it has no run"
    missing = [f"{escape(c.column.task)} ({c.state})" for c in row.cells.values() if not c.runs]
    within = tables.gated(row.in_distribution, row.flagged)
    text = f"{rank}, IQM {tables.iqm(row)}, mean {tables.score(row)}, in distribution {within}. "
    text += f"Not there: {', '.join(missing)}. " if missing else ""
    return text + f"Suite version {grid.version}, fingerprint {code(grid.fingerprint)}."


def against(entry: Entry) -> list[str]:
    """From which others of its table the tests tell it; nothing where they were not compared."""
    row, found = entry.row, {"above": [], "below": [], None: []}  # type: ignore[var-annotated]
    for other in entry.table:
        if other.name in row.ps:
            found[separated(row, other, row.ps[other.name])].append(f"[{escape(other.name)}]({page_name(other.name)}.md)")
    texts = {"above": "Separated, and above", "below": "Separated, and below", None: "Not separated from"}
    lines = [f"- **{text}**: {', '.join(found[key])}" for key, text in texts.items() if found[key]]
    return ["\n".join(lines)] if lines else []


def by_task(entry: Entry) -> str:
    """What each task comes to."""
    body = []
    for column in entry.grid.columns:
        cell = entry.row.cells[column.task]
        body.append(
            [
                escape(column.task),
                str(column.train_length),
                tables.gated(cell.in_distribution, cell.flagged),
                tables.ood(cell, entry.row),
                tables.reached(cell),
                str(len(cell.runs)),
            ]
        )
    return table(["task", "L", "in distribution", "past L", "reach", "seeds"], body)


def by_length(entry: Entry, column: Column) -> list[str]:
    """Exact match of one task at every length: the mean, and each seed."""
    cell = entry.row.cells[column.task]
    lengths = [f"{n} = L" if n == column.train_length else str(n) for n in column.lengths]
    within = in_distribution(column.at, cell.exact, column.train_length)
    past = out_of_distribution(column.at, cell.exact, column.train_length)
    body = [["**mean**", *(share(x) for x in cell.by_length), share(within.mean()), f"**{share(past.mean())}**"]]
    for run, exact, inside, outside in zip(cell.runs, cell.exact, within, past, strict=True):
        name = f"seed {run.seed}" + (", diverged" if run.status == "diverged" else "")
        body.append([name, *(share(x) for x in exact), share(inside), share(outside)])
    body += [[f"seed {seed}, failed", *[tables.ABSENT] * (len(lengths) + 2)] for seed in cell.failed]
    if max(column.chance) > tables.VISIBLE_CHANCE:
        body.append(["*chance*", *(share(x) for x in column.chance), "", ""])
    title = f"### {escape(column.task)} ({escape(column.variant)}), suite {escape(entry.grid.name)}"
    return [title, table(["exact match at", *lengths, "l ≤ L", "l > L"], body)]


def runs(entry: Entry) -> list[str]:
    """One line a run; what several share stands below, once."""
    made: dict[str, int] = {}
    body = []
    for run in entry.runs:
        number = made.setdefault(made_with(run), len(made) + 1)
        timings = run.timings
        body.append(
            [
                escape(run.task),
                str(run.seed),
                run.status,
                f"{run.steps:,}",
                escape(run.started),
                escape(run.finished),
                f"{timings.train_s:.1f}",
                f"{timings.step_ms:.2f}" + (f" {tables.BUSY}" if timings.busy else ""),
                f"{number}",
            ]
        )
    header = ["task", "seed", "status", "steps", "started", "finished", "training, s", "step, ms", "made with"]
    parts = [table(header, body, left=3)]
    if any(run.timings.busy for run in entry.runs):
        parts.append(f"{tables.BUSY} {BUSY_TEXT}")
    parts.append("Made with:\n\n" + "\n".join(f"{number}. {text}" for text, number in made.items()))
    hashes = {run.task: run.data_hash for run in entry.runs}
    return [*parts, "Test examples (data hash): " + ", ".join(f"{escape(t)} {code(h)}" for t, h in hashes.items()) + "."]


def made_with(run: Result) -> str:
    """Everything that a run's numbers hang on beside suite, task and seed."""
    versions = ", ".join(f"{escape(name)} {escape(version)}" for name, version in sorted(run.versions.items()))
    threads = f"{run.threads} thread{'s' * (run.threads != 1)}"
    source = f"source of the encoding SHA-256 {code(run.encoding.source_sha256)}"
    return f"{escape(run.device)}, {threads}; {versions}; {source}{commit(run.commit)}"


def commit(found: str | None) -> str:
    return f"; commit {code(found)}" if found else ""


def again(entry: Entry) -> list[str]:
    """The command that makes one of the numbers above again."""
    run, grid = entry.runs[0], entry.grid
    lines = [f"git checkout {run.commit}"] if run.commit and re.fullmatch("[0-9a-f]{40}", run.commit) else []
    lines.append(reproduce(run))
    # A fence that nothing within can close.
    fence = "`" * max(3, 1 + max((len(ticks) for ticks in re.findall("`+", "\n".join(lines))), default=0))
    text = (
        f"The first line above; with another task and seed, any other. It ends with the same scores on the same processor and "
        f"versions. Elsewhere rounding differs: scores are mostly close, but a task that is learned late may be learned later "
        f"still, or not. The fingerprint must be {code(grid.fingerprint)}."
    )
    return ["\n".join([f"{fence}sh", *lines, fence]), text]


def reproduce(run: Result) -> str:
    """``lprime run small --encoding rope --task copying --seed 0 --out again``."""
    words = ["lprime", "run", run.suite, "--encoding", run.encoding.name, "--task", run.task, "--seed", str(run.seed)]
    return shlex.join([*words, "--out", "again"])


def older(entry: Entry) -> list[str]:
    """Numbers of an older version of a suite, without its runs."""
    grid, row = entry.grid, entry.row
    parts = [f"## Suite {escape(grid.name)}, older version {grid.version}, fingerprint {code(grid.fingerprint)}"]
    parts.append("Made with another version of suite or harness; these numbers do not compare with those above.")
    for column in grid.columns:
        cell = row.cells[column.task]
        if cell.runs:
            lengths = [f"{n} = L" if n == column.train_length else str(n) for n in column.lengths]
            name = f"mean of {len(cell.runs)} seed{'s' * (len(cell.runs) != 1)}"
            parts.append(table([escape(column.task), *lengths], [[name, *(share(x) for x in cell.by_length)]]))
    return parts


def yes(value: bool) -> str:
    return "yes" if value else "no"
