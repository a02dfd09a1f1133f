"""Encoding pages: what an encoding is, its score at every length and seed, the runs behind it, and how to reproduce one."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.measure.card import Card, Measured
from bench.result import SOURCE_MEANINGS, Result
from leaderboard.data.file_names import IMAGES, PAGES, page_name
from leaderboard.data.grid import Column, Grid
from leaderboard.figures.canvas import file_name
from leaderboard.format import ABSENT, BUSY, family_title, ranking_title, rerun_command, share
from leaderboard.stats.rows import Row
from leaderboard.stats.scores import in_distribution
from leaderboard.stats.summary import BASE, separation
from tasks import plural

from . import columns
from .explanation import OTHER_VERSION
from .markdown import code, escape, markdown_table, themed_picture, web_address
from .tables import chance_line, saw_longer, stage_text
from .task_metrics import IN_DISTRIBUTION, REACH, SCORE

README = "README.md"
PROPERTIES = {
    "unique": "different positions have different codes",
    "linear": "what is added to the embedding at p + 3 is a linear function of what is added at p; where nothing is added: "
    "attention depends on positions, and only on their differences",
    "defined_past_train": "finite beyond the training lengths",
    "deterministic": "deterministic in evaluation",
    "several_dimensions": "reversing all positions but the last changes the codes",
}
BUSY_TEXT = "The machine was busy with other work: times are too long; no other number is affected."


@dataclass(frozen=True)
class Entry:
    """One encoding on one version of a suite."""

    grid: Grid
    row: Row
    table: Sequence[Row] = ()
    """All rows of its table, this one included."""


def page_path(encoding: str) -> str:
    """The path of an encoding's page, relative to the board."""
    return f"{PAGES}/{page_name(encoding)}.md"


def figure_path(suite: str, encoding: str, look: str) -> str:
    """The path of a page's figure, relative to the board; a separate folder prevents clashes with other figures."""
    return f"{IMAGES}/{suite}/{PAGES}/{file_name(page_name(encoding), look)}"


def render_encoding_page(encoding: str, suites: Mapping[str, Sequence[Entry]], card: Card) -> str:
    """One page.

    Arguments:
        suites: suite → its versions with runs of this encoding, newest first.
    """
    newest = max((entries[0] for entries in suites.values()), key=lambda e: max(run.finished for run in e.row.runs))
    parts = [f"# {escape(encoding)}", f"[← the board](../{README})", description(newest, card)]
    if card.measured:
        parts += measured_section(card.measured, {run.encoding.source_sha256 for run in newest.row.runs})
    for entries in suites.values():
        parts += [*suite_sections(entries[0]), *(part for entry in entries[1:] for part in older_version(entry))]
    return "\n\n".join(parts) + "\n"


def description(entry: Entry, card: Card) -> str:
    """Description of the encoding, from its runs and its card."""
    record = entry.row.record
    assert record is not None  # a page has runs
    settings = columns.settings_text(record)
    declared = card.declared
    authors = f"{escape(declared.authors, 300)}, " if declared else ""
    paper, address = escape(record.title, 300), web_address(record.link)
    lines = []
    if declared:
        lines.append(f"- **Formula**: {escape(declared.formula, 2000)}")
        lines.append(f"- **Behaviour beyond the training length (l > L)**: {escape(declared.past, 2000)}")
        if re.search(r"\bN\b", f"{declared.formula} {declared.past}"):
            lines.append(
                "- **N** is the announced length of a sequence, in tokens: in a test, that of an example of the tested length"
            )
    if stage := stage_text(entry.row):
        announced = "From then on every sequence is announced with length L′, also within L: read N = L′ above for all lengths"
        lines.append(f"- **Fine-tuning stage**: {stage}" + (f". {announced}" if saw_longer(entry.row) else ""))
    lines.append(f"- **Paper**: {authors}{f'[{paper}]({address})' if address else paper}, {record.year}")
    if record.source:
        meaning = SOURCE_MEANINGS.get(record.source)  # type: ignore[call-overload]
        lines.append(f"- **Source**: {escape(record.source)}" + (f", {meaning}" if meaning else ""))
    lines.append(f"- **Family**: {escape(family_title(record.family))}")
    lines.append(f"- **Ranking class**: {escape(ranking_title(entry.row.ranking))}")
    lines += [f"- **Settings**: {escape(settings, 500)}"] if settings else []
    lines += [f"- **Length settings**: {escape(record.lengths, 500)}"] if record.lengths else []
    lines.append(f"- **Parameters** of its own: {columns.PARAMETERS.text(entry.row)}")
    if declared:
        lines.append(f"- **Hooks**: {escape(', '.join(declared.hooks) or 'none', 200)}")
        lines.append(f"- **Shift-invariant**: {yes_no(declared.shift_invariant)}. **Random**: {yes_no(declared.random)}.")
        lines.append(f"- **Implemented from**: {escape(declared.provenance, 2000)}")
    return "\n".join(lines)


def measured_section(measured: Measured, sources: set[str]) -> list[str]:
    """Properties and costs.

    Arguments:
        sources: hashes of the sources that the encoding's runs used.
    """
    about = (
        "Measured on an untrained instance with slightly perturbed parameters, over 96 positions. The *code* of a position is "
        "what is added to the embedding there, and the attention of a fixed query to a fixed key there."
    )
    properties = "\n".join(f"- {PROPERTIES.get(k, escape(k))}: {yes_no(v)}" for k, v in measured.properties.items())
    parts = ["## Measured", about, properties]
    costs = [
        [f"{c.length:,}", f"{c.step_ms:.2f}", f"{c.step_ratio:.2f}", f"{c.peak_mb:.1f}", f"{c.peak_ratio:.2f}"]
        for c in measured.costs
    ]
    if costs:
        titles = ["tokens", "step, ms", f"step, {BASE} = 1", "peak memory, MiB", f"memory, {BASE} = 1"]
        step = f"A training step of suite {escape(measured.suite)} on {columns.task_markdown(measured.task)}"
        sizes = "with the tokens of an example of length L, and with 2 and 4 times as many"
        parts += [f"{step}, measured side by side with {BASE}, {sizes}:", markdown_table(titles, costs, left=0)]
    torch, finished = escape(measured.versions.get("torch", "?")), escape(measured.finished)
    text = f"Measured on one thread of {escape(measured.device)}, torch {torch}, {finished}{commit_suffix(measured.commit)}."
    text += "" if measured.source_sha256 in sources else " The runs below used a different version of its source."
    return [*parts, text + (f" {BUSY_TEXT}" if measured.busy else "")]


def suite_sections(entry: Entry) -> list[str]:
    """The newest version of one suite: curves, numbers, runs, and how to reproduce them."""
    grid, row = entry.grid, entry.row
    parts = [f"## Suite {escape(grid.name)}", summary_line(entry), separations(entry), task_table(entry)]
    alt = f"{row.name}: exact match by length, on each task"
    parts.append(themed_picture(alt, lambda look: f"../{figure_path(grid.name, row.name, look)}"))
    for column in grid.columns:
        if row.cells[column.task].runs:
            parts += length_section(entry, column)
    parts += [f"### Runs of suite {escape(grid.name)}", *run_table(entry)]
    return [*filter(None, parts), f"### Reproduce a number of suite {escape(grid.name)}", *rerun_section(entry)]


def summary_line(entry: Entry) -> str:
    row, grid = entry.row, entry.grid
    if row.tier and row.places:
        tested = sum(other.tier is not None for other in entry.table)
        rank = f"Tier {row.tier}, possible places {columns.PLACES.text(row)} of {tested} tested"
    else:
        rank = "Not tested: single seeds, or nothing to compare with" if row.complete else "Not ranked: some task has no run"
    missing = [f"{columns.task_markdown(c.column.task)} ({c.state})" for c in row.cells.values() if not c.runs]
    within = columns.IN_DISTRIBUTION_MEAN.text(row)
    text = f"{rank}, score {columns.SCORE.text(row)}, reach {columns.MEAN_REACH.text(row)} L, exact match at l ≤ L {within}. "
    text += f"No result on {', '.join(missing)}. " if missing else ""
    return text + f"Suite version {grid.version}, fingerprint {code(grid.fingerprint)}."


def separations(entry: Entry) -> str:
    """The rows of its table from which the tests separate it or not; empty where nothing was compared."""
    titles = {"above": "Separated, better than", "below": "Separated, worse than", None: "Not separated from"}
    others: dict[str | None, list[str]] = {verdict: [] for verdict in titles}
    for other in entry.table:
        if other.name in entry.row.ps:
            verdict = separation(entry.row, other)
            others[verdict].append(f"[{escape(other.name)}]({page_name(other.name)}.md)")
    return "\n".join(f"- **{titles[verdict]}**: {', '.join(names)}" for verdict, names in others.items() if names)


def task_table(entry: Entry) -> str:
    """One line per task."""
    metrics = [SCORE, REACH, IN_DISTRIBUTION]
    body = []
    for column in entry.grid.columns:
        cell = entry.row.cells[column.task]
        texts = [metric.text(cell, entry.row) for metric in metrics]
        body.append([columns.task_markdown(column.task), str(column.train_length), *texts, str(len(cell.runs))])
    return markdown_table(["task", "L", *(metric.title for metric in metrics), "seeds"], body)


def length_section(entry: Entry, column: Column) -> list[str]:
    """Exact match on one task at every length: the mean, and each seed."""
    cell = entry.row.cells[column.task]
    within = in_distribution(column.at, cell.exact, column.train_length)
    titles = [*columns.length_titles(column), IN_DISTRIBUTION.title, SCORE.title]
    body = [["**mean**", *map(share, cell.by_length), share(within.mean()), f"**{share(cell.scores.mean())}**"]]
    for run, exact, inside, outside in zip(cell.runs, cell.exact, within, cell.scores, strict=True):
        name = f"seed {run.seed}" + (", diverged" if run.status == "diverged" else "")
        body.append([name, *map(share, exact), share(inside), share(outside)])
    body += [[f"seed {seed}, failed", *[ABSENT] * len(titles)] for seed in cell.failed]
    body += [[*line, "", ""] for line in chance_line(column)]
    heading = f"### {columns.task_markdown(column.task)} ({escape(column.variant)}), suite {escape(entry.grid.name)}"
    return [heading, markdown_table(["exact match at", *titles], body)]


def run_table(entry: Entry) -> list[str]:
    """One line per run; environments that several runs share are listed below, once."""
    environments: dict[str, int] = {}
    body = []
    for run in entry.row.runs:
        number = environments.setdefault(run_environment(run), len(environments) + 1)
        what = [columns.task_markdown(run.task), str(run.seed), run.status, f"{run.steps:,}"]
        when = [escape(run.started), escape(run.finished)]
        times = [f"{run.timings.train_s:.1f}", f"{run.timings.step_ms:.2f}" + (f" {BUSY}" if run.timings.busy else "")]
        body.append([*what, *when, *times, str(number)])
    titles = ["task", "seed", "status", "steps", "started", "finished", "training, s", "step, ms", "environment"]
    parts = [markdown_table(titles, body, left=3), *shared_training(entry)]
    if any(run.timings.busy for run in entry.row.runs):
        parts.append(f"{BUSY} {BUSY_TEXT}")
    parts.append("Environments:\n\n" + "\n".join(f"{number}. {text}" for text, number in environments.items()))
    hashes = {run.task: run.data_hash for run in entry.row.runs}
    examples = ", ".join(f"{columns.task_markdown(task)} {code(data)}" for task, data in hashes.items())
    return [*parts, f"Test examples (data hash): {examples}."]


def shared_training(entry: Entry) -> list[str]:
    """One line for each other encoding whose training some of the runs share."""
    tasks: dict[str, list[str]] = {}
    for run in entry.row.runs:
        if run.trained_as not in ("", entry.row.name) and run.task not in tasks.setdefault(run.trained_as, []):
            tasks[run.trained_as].append(run.task)
    return [
        f"On {', '.join(map(columns.task_markdown, names))}, the training is that of {code(name)}, which is the same up to the "
        "recipe's last step: it ran once for both."
        for name, names in tasks.items()
    ]


def run_environment(run: Result) -> str:
    """Everything that the numbers of a run depend on besides suite, task and seed."""
    versions = ", ".join(f"{escape(name)} {escape(version)}" for name, version in sorted(run.versions.items()))
    source = f"source of the encoding SHA-256 {code(run.encoding.source_sha256)}"
    return f"{escape(run.device)}, {plural(run.threads, 'thread')}; {versions}; {source}{commit_suffix(run.commit)}"


def commit_suffix(commit: str | None) -> str:
    return f"; commit {code(commit)}" if commit else ""


def rerun_section(entry: Entry) -> list[str]:
    """The command that reproduces one of the numbers above."""
    run, grid = entry.row.runs[0], entry.grid
    lines = [f"git checkout {run.commit}"] if run.commit and re.fullmatch("[0-9a-f]{40}", run.commit) else []
    lines.append(rerun_command(run))
    # Nothing inside can close this fence.
    fence = "`" * max(3, 1 + max((len(ticks) for ticks in re.findall("`+", "\n".join(lines))), default=0))
    text = (
        "This reproduces the first run above; change task and seed for any other (`--extra-seeds` allows seeds that the suite "
        "does not have). The scores are the same on the same processor and versions. Elsewhere rounding differs: most scores "
        "are close, but a task that is learned late may be learned later still, or not at all, and past L a run may score as "
        f"differently as another seed. The fingerprint must be {code(grid.fingerprint)}."
    )
    return ["\n".join([f"{fence}sh", *lines, fence]), text]


def older_version(entry: Entry) -> list[str]:
    """Numbers of an older version of a suite, without its runs."""
    grid, row = entry.grid, entry.row
    parts = [f"## Suite {escape(grid.name)}, older version {grid.version}, fingerprint {code(grid.fingerprint)}", OTHER_VERSION]
    for column in grid.columns:
        cell = row.cells[column.task]
        if cell.runs:
            means = [f"mean of {plural(len(cell.runs), 'seed')}", *map(share, cell.by_length)]
            parts.append(markdown_table([columns.task_markdown(column.task), *columns.length_titles(column)], [means]))
    return parts


def yes_no(value: bool) -> str:
    return "yes" if value else "no"
