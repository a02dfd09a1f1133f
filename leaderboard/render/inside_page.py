"""The page "Inside the models", and the section of each encoding's page: what probes found (``bench.probe``)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from bench.findings.finding import shipped_findings
from bench.findings.outcome import Outcome
from bench.findings.verdict import verdict_of
from bench.probe.record import ProbeRecord
from leaderboard.data.grid import Grid
from leaderboard.figures.inside import ALTS, Records, of
from leaderboard.figures.inside_files import encoding_path, has_figure, suite_path, suite_stems
from leaderboard.format import listed
from leaderboard.stats.association import association
from tasks import plural

from .association_text import association_section, places_sentence
from .findings_page import FINDINGS
from .markdown import escape, heading_anchor, link, markdown_table, themed_picture

INSIDE = "INSIDE.md"
ABOUT = """\
Where does a model without encoding know positions, how far back does each head look, whose attention is like whose, is
context past L used, and what happens to the attention as sequences grow? These numbers are of the trained models of the
published runs, read by hooks from outside (`lprime probe`; each probe is described in its file in
[bench/probe](../../bench/probe)). The models are small and the data synthetic: an order that is not found here is not
refuted there."""
FOUND = f"What papers found, and whether these models show it, by the rules of the [reproductions]({FINDINGS})."
HEADINGS = {
    "position": "Where is the position?",
    "distance": "How far back does each head look?",
    "similarity": "Whose attention is like whose?",
    "context": "Is context past L used?",
    "needle": "Needle by depth and length",
    "growth": "What changes as sequences grow?",
    "excess": "Language, against the known optimum",
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
    if table := found_table(outcomes):
        parts += ["## What was found", FOUND, table]
    for suite, records in probes.items():
        parts += suite_sections(suite, records, suites.get(suite, ()))
    return "\n\n".join(parts) + "\n"


def found_table(outcomes: Mapping[str, Outcome]) -> str:
    """Claims of papers about the insides of models, with the verdicts; empty without any."""
    rows = []
    for finding in shipped_findings():
        if finding.probes and finding.name in outcomes:
            claim = f"[{escape(finding.claim, 300)}]({FINDINGS}#{heading_anchor(finding.name)})"
            paper = link(finding.source.paper.split(",")[0], finding.source.link)
            rows.append([claim, paper, verdict_of(finding, outcomes[finding.name]).verdict])
    return markdown_table(["claim", "paper", "verdict"], rows, left=3) if rows else ""


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
    for stem in sorted(suite_stems(records), key=list(HEADINGS).index):
        parts += [f"### {HEADINGS[stem]}", picture(suite, stem)]
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


def inside_section(encoding: str, probes: Mapping[str, Records], suites: Mapping[str, Sequence[Grid]]) -> str:
    """The end of an encoding's page; empty without records. Arguments as for ``render_inside``."""
    parts = []
    for suite, records in probes.items():
        own = [record for record in records if record.encoding == encoding]
        if not own:
            continue
        parts.append(f"## How it works inside, suite {escape(suite)}")
        parts.append(f"What is measured, and what other encodings do: [Inside the models](../{INSIDE}).")
        goes = association(versions[0]) if (versions := suites.get(suite)) else None
        parts += [places] if goes and (places := places_sentence(goes, encoding)) else []
        parts += [encoding_picture(suite, encoding)] if has_figure(records, encoding) else []
    return "\n" + "\n\n".join(parts) + "\n" if parts else ""


def seeds_of(records: Sequence[ProbeRecord]) -> str:
    """How many seeds each cell has, such as ``1 to 3 seeds``."""
    cells = Counter((record.task, record.encoding) for record in records)
    low, high = min(cells.values()), max(cells.values())
    return plural(high, "seed") if low == high else f"{low} to {plural(high, 'seed')}"
