"""The page "What we could and could not reproduce": each published finding, our numbers, and the verdict."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from bench.findings.finding import Finding
from bench.findings.outcome import Outcome
from bench.findings.verdict import NOT_RUN, RULES, STALE, WITHDRAWN, Judgement, verdict_of
from leaderboard.format import ABSENT
from leaderboard.stats.scores import mean_interval
from tasks import plural

from .markdown import code, escape, heading_anchor, link, markdown_table

FINDINGS = "findings.md"
DECIMALS = 1e-4, 1e5
"""Half-widths in this range are shown without an exponent."""


def render_findings(findings: Iterable[Finding], outcomes: Mapping[str, Outcome]) -> str:
    """The whole page; findings without an outcome are listed as not run."""
    judged = [(finding, verdict_of(finding, outcomes.get(finding.name))) for finding in findings]
    found = Counter(one.verdict for _, one in judged)
    order = (*RULES, NOT_RUN, STALE)
    counts = [f"{found[v]} {v}" for v in order if found[v]]
    judged.sort(key=lambda one: order.index(one[1].verdict))
    rows = [
        [f"[{escape(f.claim, 300)}](#{heading_anchor(f.name)})", escape(f.source.paper.split(",")[0]), one.verdict]
        for f, one in judged
    ]
    rules = [f"- **{verdict}**: {rule}." for verdict, rule in RULES.items() if found[verdict]]
    rules += [f"- **{NOT_RUN}**: its rule is committed, and no outcome is recorded yet."] * (found[NOT_RUN] > 0)
    parts = [
        "# What we could and could not reproduce",
        f"Findings of the literature, run with this code on a CPU: {', '.join(counts)}. The models are small and the trainings "
        "short, so a finding that is not reproduced here need not be wrong; each section lists how our setting differs.",
        "Each rule was committed before its runs, unless its section says otherwise. Intervals are 95 %, over seeds. A claim "
        "is tested as a whole. This test replaced the worst verdict among its parts on 2026-11-26, after these runs; where it "
        "changed the verdict, the section says so.",
        "\n".join(rules),
        markdown_table(["claim", "source", "verdict"], rows, left=3),
        *(section(finding, one, outcomes.get(finding.name)) for finding, one in judged),
        "A finding is one YAML file: [CONTRIBUTING.md](../../CONTRIBUTING.md#a-new-finding).",
    ]
    return "\n\n".join(parts) + "\n"


def section(finding: Finding, judgement: Judgement, outcome: Outcome | None) -> str:
    """One finding in full."""
    source, verdict, parts = finding.source, judgement.verdict, judgement.parts
    unchecked = " The claim is taken from second-hand descriptions; its numbers were not checked in the paper."
    tolerance = f"; tolerance {finding.tolerance:g}" if source.numbers else ""
    seeds = {*finding.seeds, *(seed for suite in finding.grids.values() for seed in suite.seeds)}
    lines = [
        f"## {finding.name}",
        f"{escape(finding.claim, 1000)} **{verdict[0].upper() + verdict[1:]}.**",
        f"- Published: {link(source.paper, source.link)}; {escape(source.where, 500)}.{unchecked * source.second_hand}",
        f"- Their setting: {escape(source.setting, 500)}.",
        f"- Ours: {escape('; '.join(finding.differences), 2000)}.",
        f"- Numbers: {escape(finding.unit, 300)}; {plural(len(seeds), 'seed')}{tolerance}. "
        f"`lprime reproduce {finding.name}`, {finding.minutes:g} minutes of one core.",
    ]
    if judgement.verdict == WITHDRAWN:
        lines.append(f"- Withdrawn: {escape(finding.withdrawn, 500)}.")
    if finding.objection:
        lines.append(f"- Objection: {escape(finding.objection, 500)}.")
    if finding.tried:
        lines.append(f"- Notes: {escape(finding.tried, 2000)}")
    text = "\n\n".join([*lines[:2], "\n".join(lines[2:])])
    if parts and outcome:
        header = ["part", "published", "ours", "verdict"]
        rows = [[escape(p.text), number(p.published), interval(p.estimate, p.half_width), p.verdict] for p in parts]
        means = [
            [code(label), number(finding.source.numbers.get(label)), mean_text(by_seed)]
            for label, by_seed in outcome.samples.items()
        ]
        text += "\n\n" + markdown_table(header, rows) + "\n\n" + markdown_table(["", "published", "ours"], means)
    return text


def mean_text(by_seed: Mapping[int, float]) -> str:
    values = np.array(list(by_seed.values()), float)
    return interval(*mean_interval(values)) if len(values) else ABSENT


def interval(estimate: float, half_width: float | None) -> str:
    """``0.022 ± 0.080``: two significant digits of the half-width, or all before its decimal point; the estimate has as many
    decimals."""
    if half_width is None or not (math.isfinite(estimate) and math.isfinite(half_width)):
        return number(estimate)
    if not DECIMALS[0] <= half_width < DECIMALS[1]:
        return f"{number(estimate)} ± {half_width:.2g}"
    decimals = max(0, 1 - math.floor(math.log10(half_width)))
    return f"{estimate:z.{decimals}f} ± {half_width:.{decimals}f}"


def number(value: float | None) -> str:
    return ABSENT if value is None or math.isnan(value) else f"{value:z.3g}"
