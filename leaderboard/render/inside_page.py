"""The page "Inside the models", and the section of each encoding's page: what probes found (``bench.probe``)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from bench.findings.finding import Finding, shipped_findings
from bench.probe.loss import losses
from bench.probe.record import ProbeRecord
from bench.probe.tables import Table, loss_tables, tables
from leaderboard.data.grid import Grid
from leaderboard.data.outcomes import Outcome
from leaderboard.figures.inside import ALTS, Records, of
from leaderboard.figures.inside_files import encoding_path, grid_results, has_figure, loss_panels, suite_path, suite_stems
from leaderboard.format import ABSENT, listed
from leaderboard.stats.association import association
from leaderboard.stats.verdict import VERDICTS, Part, judge
from tasks import plural

from .association_text import association_section, places_sentence
from .findings_page import FINDINGS, interval, verdict_of
from .markdown import escape, folded, heading_anchor, link, markdown_table, themed_picture

INSIDE = "INSIDE.md"
ABOUT = """\
Where does a model without encoding know positions, how far back does each head look, whose attention is like whose, is
context past L used, and what happens to the attention as sequences grow? These numbers are of the trained models of the
published runs, read by hooks from outside (`lprime probe`; each probe is described in its file in
[bench/probe](../../bench/probe)). The models are small and the data synthetic: an order that is not found here is not
refuted there."""
FOUND = f"""\
What papers found, and whether these models show it. The rules are those of the [reproductions]({FINDINGS}), which have the
published numbers next to ours. On the suite that a rule names, it was committed before the runs that it judges. Other suites
are judged by the same rules from all their published seeds; some of these numbers were known when the rules were written. Parts
of a claim that are not seen are listed, with our number ± half of its 95 % interval over seeds."""
THEOREM = """\
Kazemnejad et al. 2023 prove that a causal model without encoding can recover absolute and relative positions. Here the proof is
a computation, with weights that are constructed by hand: [theorem.py](../../bench/probe/theorem.py). `lprime probe theorem`
prints:"""
HEADINGS = {
    "position": "Where is the position?",
    "distance": "How far back does each head look?",
    "similarity": "Whose attention is like whose?",
    "context": "Is context past L used?",
    "needle": "Needle by depth and length",
    "growth": "What changes as sequences grow?",
    "excess": "Language, against the known optimum",
    "loss": "Loss within the training length",
}
"""Probe → heading, in the order of the page."""


def render_inside(probes: Mapping[str, Records], suites: Mapping[str, Sequence[Grid]], outcomes: Mapping[str, Outcome]) -> str:
    """The whole page.

    Arguments:
        probes: suite → records.
        suites: suite → its versions, newest first.
        outcomes: finding → outcome.
    """
    parts = ["# Inside the models", "[← the board](README.md)", ABOUT]
    if table := found_table(probes, outcomes):
        parts += ["## What was found", FOUND, table]
    for suite, records in probes.items():
        parts += suite_sections(suite, records, suites.get(suite, ()))
    return "\n\n".join([*parts, *theorem_section()]) + "\n"


def found_table(probes: Mapping[str, Records], outcomes: Mapping[str, Outcome]) -> str:
    """Claims of papers about the insides of models, with the verdict on each suite; empty without any."""
    found = [finding for finding in shipped_findings() if finding.probes]
    verdicts = [suite_verdicts(finding, probes, outcomes.get(finding.name)) for finding in found]
    suites = [suite for suite in probes if any(suite in one for one in verdicts)]
    rows = []
    for finding, by_suite in zip(found, verdicts, strict=True):
        claim = f"[{escape(finding.claim, 300)}]({FINDINGS}#{heading_anchor(finding.name)})"
        paper = link(finding.source.paper.split(",")[0], finding.source.link)
        rows.append([claim, paper, *(by_suite.get(suite, ABSENT) for suite in suites)])
    header = ["claim", "paper", *(f"suite {escape(suite)}" for suite in suites)]
    return markdown_table(header, rows, left=len(header)) if suites else ""


def suite_verdicts(finding: Finding, probes: Mapping[str, Records], outcome: Outcome | None) -> dict[str, str]:
    """Suite → verdict: of the outcome on the finding's own suite, of the published probes on others with all labels."""
    own = next(iter(finding.grids.values())).name
    found = {own: verdict_text(*verdict_of(finding, outcome))}
    needed = {label for one in finding.expect for label in one.labels}
    for suite, records in probes.items():
        if suite != own and needed <= (samples := finding.samples_elsewhere(records)).keys():
            found[suite] = verdict_text(*judge(finding, samples))
    return found


def verdict_text(verdict: str, parts: Sequence[Part]) -> str:
    """The verdict, with the parts that are not seen."""
    unseen = [f"{escape(p.text)}: {interval(p.estimate, p.half_width)}" for p in parts if p.verdict in VERDICTS[:2]]
    return f"**{verdict}**" + (f" ({'; '.join(unseen)})" if unseen else "")


def suite_sections(suite: str, records: Records, versions: Sequence[Grid]) -> list[str]:
    """Figures and tables of one suite."""
    measured = ""
    if seeds := {probe: seeds_of(own) for probe in HEADINGS if (own := of(records, probe))}:
        usual = Counter(seeds.values()).most_common(1)[0][0]
        others = ", ".join(f"{probe} {number}" for probe, number in seeds.items() if number != usual)
        measured = f" Probes: {usual} of each encoding and task{f' ({others})' if others else ''}."
    number = records[0].suite_version if records else versions[0].version
    again = trained_again(records, versions[0]) if versions else ""
    parts = [f"## Suite {escape(suite)}", f"Suite version {number}.{measured}{again}"]
    if versions and (goes := association(versions[0])):
        parts += association_section(suite, goes)
    found = tables(records)
    for stem in sorted(suite_stems(records), key=list(HEADINGS).index):
        parts += [f"### {HEADINGS[stem]}", picture(suite, stem)]
        parts += [folded_table(table) for table in found if table.probe == stem]
    if within := losses(grid_results(versions)):
        parts += [f"### {HEADINGS['loss']}", *([picture(suite, "loss")] if loss_panels(versions) else [])]
        parts += map(folded_table, loss_tables(within))
    return parts


def trained_again(records: Records, grid: Grid) -> str:
    """Which encodings were probed in other models than those of the published runs: those trained again elsewhere."""
    devices = {(run.task, run.encoding.name, run.seed): run.device for run in grid.all_runs}
    found: dict[str, set[str]] = {}
    for record in records:
        if record.device and record.device != devices.get((record.task, record.encoding, record.seed)):
            found.setdefault(record.device, set()).add(record.encoding)
    return "".join(
        f" Models of {listed(sorted(map(escape, names)))} were trained again on {escape(device)}, whose rounding differs, so "
        "they are not quite those of the published runs."
        for device, names in sorted(found.items())
    )


def picture(suite: str, stem: str) -> str:
    return themed_picture(ALTS[stem], partial(suite_path, suite, stem))


def encoding_picture(suite: str, encoding: str) -> str:
    alt = f"{encoding}: probes of its trained models"
    return themed_picture(alt, lambda look: f"../{encoding_path(suite, encoding, look)}")


def folded_table(table: Table) -> str:
    """A table behind its title."""
    rows = [[escape(cell) if cell else "" for cell in row] for row in table.rows]
    body = markdown_table(list(map(escape, table.header)), rows)
    return folded(escape(table.title, 200), body)


def theorem_section() -> list[str]:
    from bench.probe.theorem import permutation_errors, report, run_theorem

    return ["## The theorem, with numbers", THEOREM, f"```\n{report(run_theorem(), permutation_errors())}\n```"]


def inside_section(encoding: str, probes: Mapping[str, Records], suites: Mapping[str, Sequence[Grid]]) -> str:
    """The end of an encoding's page; empty without records and losses. Arguments as for ``render_inside``."""
    parts = []
    for suite, records in probes.items():
        own = [record for record in records if record.encoding == encoding]
        within = losses(pair for pair in grid_results(suites.get(suite, ())) if pair[1].encoding.name == encoding)
        if not (own or within):
            continue
        if own:
            parts.append(f"## How it works inside, suite {escape(suite)}")
            parts.append(f"What is measured, and what other encodings do: [Inside the models](../{INSIDE}).")
            goes = association(versions[0]) if (versions := suites.get(suite)) else None
            parts += [places] if goes and (places := places_sentence(goes, encoding)) else []
        else:
            parts.append(f"## Loss within the training length, suite {escape(suite)}")
            parts.append(f"Its models were not probed. What probes of others found: [Inside the models](../{INSIDE}).")
        parts += [encoding_picture(suite, encoding)] if has_figure(records, encoding) else []
        parts += map(folded_table, [*tables(own), *loss_tables(within)])
    return "\n" + "\n\n".join(parts) + "\n" if parts else ""


def seeds_of(records: Sequence[ProbeRecord]) -> str:
    """How many seeds each cell has, such as ``1 to 3 seeds``."""
    cells = Counter((record.task, record.encoding) for record in records)
    low, high = min(cells.values()), max(cells.values())
    return plural(high, "seed") if low == high else f"{low} to {plural(high, 'seed')}"
