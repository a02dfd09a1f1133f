"""The section "What goes with the score?" of the page "Inside the models", and its sentences elsewhere."""

import math
from collections.abc import Callable
from functools import partial

from leaderboard.figures.association import ALT, STEM
from leaderboard.figures.inside_files import suite_path
from leaderboard.format import ABSENT, listed, p_value, share, signed
from leaderboard.stats.association import MEASURES, PERMUTATIONS, Association
from leaderboard.stats.significance import ALPHA
from tasks import plural

from .columns import task_title
from .markdown import escape, folded, markdown_table, themed_picture

HEADING = "What goes with the score?"
HOW = f"""\
Past L is the longest length that a probe reads; slopes are of ln x over ln T from L on, T being tokens. For each task,
Kendall's τ-b between a measure and the score past L of the same runs, over encodings; then the mean over tasks, where one
on which all encodings are tied ({ABSENT}) counts as 0. p is of a two-sided permutation test ({PERMUTATIONS:,} permutations
of the encodings, the same on all tasks and for all measures), adjusted for the {len(MEASURES)} measures by the largest |τ|.
A measure goes with the score if p ≤ {ALPHA:g}. Measures also go with each other, so two of them need not be two findings.
The measures and the test were fixed before they were computed, but when the probes and scores of suite small were known;
the columns without some encodings came later. So this is exploratory, and what goes together need not be cause and effect."""


def association_sentence(found: Association, safe: Callable[[str], str] = escape) -> str:
    """What goes with higher scores.

    Arguments:
        safe: makes a name safe for the output.
    """
    over = f"exploratory, over the {plural(len(found.encodings), 'encoding')} probed on every task"
    said: dict[str, list[str]] = {}
    for name, tau in found.found.items():
        measure, place = MEASURES[name], list(MEASURES).index(name)
        unsure = [
            f"; not significant without {listed([*map(safe, one.left_out)])}" for one in found.checks if one.ps[place] > ALPHA
        ]
        where = f"{measure.where}: " if measure.where else ""
        said.setdefault(measure.finding(tau), []).append(f"{where}τ {signed(tau)}{''.join(unsure)}")
    rest = len(MEASURES) - len(found.found)
    only = [
        f"{measure.finding(one.means[i])} only without {listed([*map(safe, one.left_out)])}"
        for i, (name, measure) in enumerate(MEASURES.items())
        for one in found.checks
        if name not in found.found and one.ps[i] <= ALPHA
    ]
    if not said:
        return f"{over}: for none of {rest} measures does the test find that it goes with the score."
    goes = [f"{finding} ({'; '.join(taus)})" for finding, taus in said.items()]
    others = f" {plural(rest, 'other measure')} show{'s' * (rest == 1)} no significant correlation" if rest else ""
    others += f" ({listed(only)})." if only else "." * bool(rest)
    return f"{over}, higher scores go with {listed(goes)}.{others} τ is Kendall's rank correlation, mean over tasks."


def places_sentence(found: Association, encoding: str) -> str:
    """An encoding's values of the measures that go with the score; empty if there are none, or it was not probed."""
    if encoding not in found.encodings or not found.found:
        return ""
    row, said = found.encodings.index(encoding), []
    for name, tau in found.found.items():
        values = found.of_measure(name)
        ahead = values > values[row] if tau > 0 else values < values[row]
        said.append(f"{name} {number(values[row])} (place {1 + int(ahead.sum())})")
    return (
        "Its values of the measures that go with the score, mean over tasks; place 1 "
        f"of {len(found.encodings)} is the value that goes with the highest scores: {listed(said)}."
    )


def number(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def association_section(suite: str, found: Association) -> list[str]:
    """Sentence, figure, and tables of the correlations and of the measures."""
    sentence = association_sentence(found)
    picture = [themed_picture(ALT, partial(suite_path, suite, STEM))] if found.found else []
    header = ["measure", "mean τ", "p", *(escape(task_title(task)) for task in found.tasks)]
    for one in found.checks:
        header += [f"τ without {len(one.left_out)} with {one.about}", "p"]
    rows = []
    for i, (name, measure) in enumerate(MEASURES.items()):
        by_task = [ABSENT if math.isnan(tau) else signed(tau) for tau in found.taus[:, i]]
        rest = [text for one in found.checks for text in (signed(one.means[i]), p_value(one.ps[i]))]
        rows.append([f"**{name}**: {measure.about}", signed(found.means[i]), p_value(found.ps[i]), *by_task, *rest])
    values = [
        [escape(name), share(scores.mean()), *map(number, cells.mean(0))]
        for name, scores, cells in zip(found.encodings, found.scores, found.values, strict=True)
    ]
    each = markdown_table(["encoding", "score of the runs probed", *MEASURES], values)
    return [
        f"### {HEADING}",
        sentence[0].upper() + sentence[1:],
        *picture,
        markdown_table(header, rows),
        " ".join([*(f"With {one.about}: {listed([*map(escape, one.left_out)])}." for one in found.checks), HOW]),
        folded("The measures of each encoding, mean over tasks", each),
    ]
