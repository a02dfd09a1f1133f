"""The board's section "Does the order hold?": its words, generated from the numbers, and its tables."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from bench.suites.vary import condition_title
from leaderboard.format import ABSENT, FLAG, listed, p_value, seed_list, share, signed
from leaderboard.stats import scores as st
from leaderboard.stats import significance
from leaderboard.stats.bootstrap import Interval
from leaderboard.stats.orders import REPLICATES, TEST_REPLICATES, Move, OrderComparison, Pairs
from leaderboard.stats.robustness import SUITE, Interaction, Robustness, Tuned
from tasks import plural

from .markdown import escape, folded, markdown_table

TITLE = "Does the order hold?"
ELSEWHERE_TITLE = "Is the order the same in other suites?"
MOST_MOVES = 3
"""Encodings named per condition."""
MOST_PAIRS = 2
"""Reversed pairs named per condition."""
HOW = f"""\
τ is Kendall's τ-b between the order of the overall scores under a condition and in the suite, over the same encodings: 1 is the
same order, 0 an unrelated one, −1 the reverse. In brackets its 95 % interval by stratified bootstrap (seeds are resampled
within each encoding and task, {REPLICATES:,} replicates). Resampling adds noise to both orders, so an interval need not be
centred on τ. *Separated* is what the board's test says of pairs of these encodings (adjusted for these pairs, once for the
suite and once for each condition). It is another test than that of the tables, which is of all encodings and seeds, so it can
separate encodings of one tier. The order holds under a condition if of the pairs separated in the suite none is separated
the other way round, and at least half are separated again. A condition counts from its first seed on that all its encodings
have on all tasks; further encodings are compared where they have all its seeds. Two of these rules came
when the first of the runs that they concern had finished: how further encodings are compared, and {TEST_REPLICATES:,}
replicates of the test, where the tables' has {significance.REPLICATES:,}. All others were fixed before the runs. {FLAG}: exact
match at l ≤ L, mean over seeds, is under {share(st.GATE)}, so the score says little about longer lengths."""


def robustness_words(found: Robustness) -> str:
    """The findings as sentences."""
    done, asked = len(found.comparisons), len(found.finished)
    so_far = f" (so far under {done} of {asked} conditions)" if done < asked else ""
    (_, everywhere), *partly = found.by_conditions.items()
    further = [f"; {listed(list(map(escape, more)))} with {condition_list(some)} alone" for some, more in partly]
    count = plural(len(everywhere), "encoding")
    text = [f"{count} ran again on all tasks with one thing changed at a time{so_far}{''.join(further)}."]
    known = [(one.encodings, one.pairs) for one in found.comparisons if one.pairs]
    if held := [one for one in found.comparisons if one.holds]:
        again = listed([f"{one.pairs.same} of {one.pairs.total}" for one in held if one.pairs])
        text.append(
            f"The order **holds** with {condition_list(one.condition for one in held)}: of the pairs separated in the suite "
            f"({seed_list(found.seeds)}) the test separates {again} again, and none the other way round."
        )
    text += [unlearned] if (unlearned := unlearned_words(found.comparisons)) else []
    changed = [f"{title(one)} ({reversed_text(one.pairs)})" for one in found.comparisons if one.pairs and one.holds is False]
    text += [f"{'It' if held else 'The order'} **does not hold** with {listed(changed)}."] if changed else []
    if unknown := [title(one) for one in found.comparisons if one.holds is None]:
        text.append(f"With {listed(unknown)}, too few seeds or separated pairs leave open whether the order holds.")
    unsure = Counter(pair for _, pairs in known for pair in pairs.open)
    seen = {pair: sum({*pair} <= {*encodings} for encodings, _ in known) for pair in unsure}
    most = [(pair, count) for pair, count in unsure.most_common() if 2 * count > seen[pair]]
    if weak := [f"{escape(a)} above {escape(b)} ({count} of {seen[a, b]})" for (a, b), count in most]:
        text.append(f"Pairs that the test does not separate again under most conditions: {listed(weak)}.")
    if taus := [one.tau for one in found.comparisons if not np.isnan(one.tau)]:
        between = " to ".join(dict.fromkeys(map(signed, (min(taus), max(taus)))))
        text.append(f"τ to the suite is {between}; differences between conditions are not tested.")
    text += [interaction_words(found.interaction, found.rates, found.tuned.seeds)] if found.interaction and found.tuned else []
    text += [tuned_words(found.tuned, found.rates)] if found.tuned else []
    partial = [
        f"{escape(condition_title(c))} ({runs} of {found.asked} runs, {plural(seeds, 'whole seed')})"
        for c, (runs, seeds) in found.finished.items()
        if runs < found.asked
    ]
    text += [f"Not complete: {listed(partial)}."] if partial else []
    return " ".join(text)


def condition_list(conditions: Iterable[str], safe: Callable[[str], str] = escape) -> str:
    """``learning rate × 0.5, × 2 and width 128``: what is changed is said once.

    Arguments:
        safe: makes a title safe for the output.
    """
    titles = [condition_title(condition) for condition in conditions]
    changed = [title.partition(" ×")[0] for title in titles]
    shown = [
        title.removeprefix(f"{what} ") if what == before else title
        for title, what, before in zip(titles, changed, ["", *changed], strict=False)
    ]
    return listed(list(map(safe, shown)))


def unlearned_words(comparisons: Iterable[OrderComparison], safe: Callable[[str], str] = escape) -> str:
    """Under which conditions encodings have not learned every task; empty if there are none.

    Arguments:
        safe: makes a title safe for the output.
    """
    counts = [
        f"{len(one.flagged)} of {len(one.encodings)} with {safe(condition_title(one.condition))}"
        for one in comparisons
        if one.flagged
    ]
    if not counts:
        return ""
    return (
        f"Some have not learned every task at l ≤ L, so their scores there say little about longer lengths: {listed(counts)}."
    )


def reversed_text(pairs: Pairs, safe: Callable[[str], str] = escape) -> str:
    """``now alibi above t5, p = .012``.

    Arguments:
        safe: makes a name safe for the output.
    """
    shown = pairs.reversed[:MOST_PAIRS]
    named = [f"{safe(one.now)} above {safe(one.before)}, p {p_text(one.p)}" for one in shown]
    more = [plural(rest, "more pair")] if (rest := len(pairs.reversed) - MOST_PAIRS) > 0 else []
    return f"now {listed([*named, *more])}"


def p_text(p: float) -> str:
    """``= .012`` or ``< .001``."""
    text = p_value(p)
    return f"< {text[1:]}" if text.startswith("<") else f"= {text}"


def interaction_words(found: Interaction, rates: Mapping[str, float], seeds: Sequence[int]) -> str:
    share_of = {"the encodings": found.encoding, "the learning rate": found.rate, "their interaction": found.both}
    parts = [f"{100 * part:.0f} % belongs to {name}" for name, part in share_of.items()]
    verdict = "depends on" if found.p <= significance.ALPHA else "does not clearly depend on"
    return (
        f"How far encodings are apart {verdict} the learning rate: of the variance of overall scores over encodings, learning "
        f"rates (the suite's, {rates_text(rates)}) and seeds ({listed(list(map(str, seeds)))}), {listed(parts)} (by which the "
        "effect of the rate differs between encodings), and the rest to the seeds (two-way analysis of variance, ω²; p of the "
        f"interaction: {p_value(found.p)})."
    )


def tuned_words(found: Tuned, rates: Mapping[str, float]) -> str:
    loss = "loss of the answers at l ≤ L" if found.by_answers else "training loss"
    start = f"Of the suite's learning rate and {rates_text(rates)}, "
    by = f"by the {loss} of {seed_list(found.seeds)}"
    if not found.changed:
        return f"{start}the suite's has the lowest loss for every encoding, {by}."
    order = (
        "" if np.isnan(found.comparison.tau) else f"; with the best for each, the order has τ = {tau_text(found.comparison)}"
    )
    count = found.at_largest(rates)
    edge = f" (for {count} the largest, so a larger one may be better still)" if count else ""
    changed = f"another than the suite's has the lowest loss for {found.changed} of {len(found.rates)} encodings{edge}"
    return (
        f"{start}{changed}, {by}{order}. Its scores are of these seeds, too: {first_words(found.comparison)}. Differences "
        "between losses are not tested."
    )


def first_words(one: OrderComparison, safe: Callable[[str], str] = escape) -> str:
    """``the test separates nope, the first, from all but t5``.

    Arguments:
        safe: makes a name safe for the output.
    """
    first = max(zip(one.scores, one.encodings, strict=True))[1]
    below = one.separated_below(first)
    close = [safe(name) for name in one.encodings if name not in {first, *below}]
    if not below:
        return f"the test does not separate {safe(first)}, the first, from any other"
    but = f" all but {listed(close, len(close))}" if close else " all others"
    return f"the test separates {safe(first)}, the first, from{but}"


def rates_text(rates: Iterable[str]) -> str:
    """``× 0.5 and × 2``."""
    return listed([condition_title(rate).removeprefix("learning rate ") for rate in rates if rate != SUITE])


def robustness_tables(found: Robustness) -> list[str]:
    """One line per condition; and the ranking with the learning rate chosen for each encoding."""
    shown = {title(one): one for one in found.comparisons}
    tuned = found.tuned if found.tuned and found.tuned.changed else None
    shown |= {"best learning rate of each": tuned.comparison} if tuned else {}
    rows = [
        [name, tau_text(one), *pair_counts(one.pairs), f"{len(one.flagged)} of {len(one.encodings)}", moves_text(one.moves)]
        for name, one in shown.items()
    ]
    header = [
        "condition",
        "τ to the suite",
        "pairs separated in the suite: the same way",
        "the other way round",
        "not separated",
        "pairs separated only here",
        f"encodings with {FLAG}",
        "largest moves: place in the suite → here (change of score)",
    ]
    return [markdown_table(header, rows), *([tuned_table(tuned)] if tuned else [])]


def elsewhere_words(found: Sequence[OrderComparison]) -> str:
    """How the order agrees with that of other suites, as sentences."""
    bracketed = "; in brackets its 95 % interval by stratified bootstrap" if any(one.interval for one in found) else ""
    return f"{other_suites(found)} τ is Kendall's τ-b of the overall scores{bracketed}."


def other_suites(found: Sequence[OrderComparison], safe: Callable[[str], str] = escape) -> str:
    """A sentence or two on each other suite.

    Arguments:
        safe: makes a name safe for the output.
    """
    text = []
    for one in found:
        order = f"the same {len(one.encodings)} encodings are in an order with τ = {tau_text(one)} to this one"
        sentence = f"In suite {safe(one.condition)} {order}"
        if one.pairs is None:
            text.append(f"{sentence}; there are too few seeds for a test.")
            continue
        turned = plural(len(one.pairs.reversed), "pair")
        text.append(
            f"{sentence}. Of the {one.pairs.total} pairs separated here, the test separates {one.pairs.same} there in the same "
            f"direction and {turned} the other way round{f' ({reversed_text(one.pairs, safe)})' if one.pairs.reversed else ''}."
        )
    return " ".join(text)


def elsewhere_table(found: Sequence[OrderComparison]) -> str:
    """The scores here and there, best encodings first."""
    rows = [
        [f"`{one.condition}`", escape(name), share(here), share(there)]
        for one in found
        for name, here, there in sorted(zip(one.encodings, one.base, one.scores, strict=True), key=lambda row: -row[1])
    ]
    return markdown_table(["suite", "encoding", "score here", "score there"], rows, left=2)


def task_scores_table(found: Robustness, tasks: Sequence[str]) -> str:
    """The scores of each encoding on each task, in the suite and under each condition; best encodings first.

    Arguments:
        tasks: their titles, as markdown.
    """
    blocks: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]] = {"the suite": {}}
    for one in found.comparisons:
        ours, theirs = zip(one.base_by_task, one.base_learned, strict=True), zip(one.scores_by_task, one.learned, strict=True)
        blocks["the suite"] |= zip(one.encodings, ours, strict=True)
        blocks[title(one)] = dict(zip(one.encodings, theirs, strict=True))
    rows = [
        [
            condition,
            escape(name),
            share(scores.mean()),
            *(share(s) + f" {FLAG}" * (not ok) for s, ok in zip(scores, learned, strict=True)),
        ]
        for condition, block in blocks.items()
        for name, (scores, learned) in sorted(block.items(), key=lambda item: -item[1][0].mean())
    ]
    table = markdown_table(["condition", "encoding", "score", *tasks], rows, left=2)
    return folded("Scores by task under each condition", table)


def pair_counts(pairs: Pairs | None) -> list[str]:
    counts = (pairs.same, len(pairs.reversed), len(pairs.open), len(pairs.new)) if pairs else ()
    return list(map(str, counts)) or [ABSENT] * 4


def tuned_table(found: Tuned) -> str:
    """The ranking with every encoding at its best learning rate."""
    one = found.comparison
    places = st.competition_ranks(list(one.scores))
    rows = []
    for place, name, score, base in sorted(zip(places, one.encodings, one.scores, one.base, strict=True)):
        rate = condition_title(found.rates[name]) if found.rates[name] != SUITE else "the suite's"
        rows.append([str(place), escape(name), rate, share(score), share(base)])
    header = ["place", "encoding", "learning rate with the lowest loss", "score", "score in the suite"]
    return markdown_table(header, rows, left=3)


def title(one: OrderComparison) -> str:
    return escape(condition_title(one.condition))


def tau_text(one: OrderComparison) -> str:
    tau = "undefined (all tied)" if np.isnan(one.tau) else signed(one.tau)
    return f"{tau} {bracket(one.interval)}".strip()


def bracket(interval: Interval | None) -> str:
    return f"[{signed(interval[0])}, {signed(interval[1])}]" if interval else ""


def moves_text(moves: Sequence[Move]) -> str:
    shown = [m for m in moves if m.before != m.after][:MOST_MOVES]
    texts = [f"{escape(m.encoding)} {m.before} → {m.after} ({'+' * (m.change > 0)}{signed(m.change)})" for m in shown]
    return ", ".join(texts) or ABSENT
