"""The section "What goes with the score?" of the page "Inside the models", and its sentence on the board."""

from leaderboard.figures.association import ALT, STEM
from leaderboard.figures.inside_files import suite_path
from leaderboard.format import ABSENT, listed, p_value, share, signed
from leaderboard.stats.association import MEASURES, PERMUTATIONS, Association
from tasks import plural

from .columns import task_title
from .markdown import escape, heading_anchor, markdown_table, themed_picture

HEADING = "What goes with the score?"
HOW = f"""\
Slopes are of ln x over ln T from L on, T being tokens. For each task, Kendall's τ between a measure and the score past L of
the same runs, over encodings; then the mean over tasks. p is of a two-sided permutation test ({PERMUTATIONS:,} permutations
of the encodings, the same on all tasks and for all measures), adjusted for the {len(MEASURES)} measures by the largest |τ|.
The measures and the test were committed before they were computed, but after the probes and the scores were known, so this
is exploratory. It shows what goes together over these encodings, not what causes what; they are no random sample, and those
that share a training are counted as different."""


def association_sentence(found: Association) -> str:
    """What goes with higher scores, in one sentence."""
    over = f"over the {plural(len(found.encodings), 'encoding')} whose models were probed"
    said = [f"{MEASURES[name].finding(tau)} (τ {signed(tau)})" for name, tau in found.found.items()]
    if not said:
        return f"{over}, none of {len(MEASURES)} measures goes with the score by more than chance."
    rest = len(MEASURES) - len(said)
    others = f" Of the {plural(rest, 'other measure')} tested, none goes with them by more than chance." if rest else ""
    return f"{over}, higher scores go with {listed(said)}.{others} What goes together need not be cause and effect."


def places_sentence(found: Association, encoding: str, page: str) -> str:
    """An encoding's values of the measures that go with the score; empty if there are none, or it was not probed.

    Arguments:
        page: address of the page with the section.
    """
    if encoding not in found.encodings or not found.found:
        return ""
    means, row, count = found.values.mean(1), found.encodings.index(encoding), len(found.encodings)
    said = []
    for name, tau in found.found.items():
        column = means[:, list(MEASURES).index(name)]
        better = column > column[row] if tau > 0 else column < column[row]
        said.append(f"{name} {number(column[row])} (place {1 + int(better.sum())})")
    goes = f"[go with higher scores]({page}#{heading_anchor(HEADING)})"
    return f"Its values of the measures that {goes}, and its places among the {count} encodings probed: {listed(said)}."


def number(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def association_section(suite: str, found: Association) -> list[str]:
    """Sentence, figure, and tables of the correlations and of the measures."""
    sentence = association_sentence(found)
    picture = [themed_picture(ALT, *(suite_path(suite, STEM, look) for look in ("light", "dark")))] if found.found else []
    tasks = [escape(task_title(task)) for task in found.tasks]
    rows = [
        [f"**{name}**: {one.about}", signed(tau), p_value(p), f"{signed(low)} to {signed(high)}"]
        + [ABSENT if t != t else signed(t) for t in by_task]
        for (name, one), tau, p, low, high, by_task in zip(
            MEASURES.items(), found.means, found.ps, *found.without_one, found.taus.T, strict=True
        )
    ]
    header = ["measure", "mean τ", "p", "without any one encoding", *tasks]
    values = [
        [escape(name), share(scores.mean()), *map(number, cells.mean(0))]
        for name, scores, cells in zip(found.encodings, found.scores, found.values, strict=True)
    ]
    each = markdown_table(["encoding", "score", *MEASURES], values)
    return [
        f"### {HEADING}",
        sentence[0].upper() + sentence[1:],
        *picture,
        markdown_table(header, rows),
        HOW,
        f"<details><summary>The measures of each encoding, mean over tasks</summary>\n\n{each}\n\n</details>",
    ]
