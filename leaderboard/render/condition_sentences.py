"""Sentences above a board's first table: under which conditions and in which suites the order holds, and who is first there."""

from collections.abc import Callable, Iterable, Sequence
from itertools import compress

import numpy as np

from bench.suites.vary import condition_title
from leaderboard.format import listed, seed_list, share, signed
from leaderboard.stats.orders import OrderComparison
from leaderboard.stats.robustness import Robustness
from leaderboard.stats.scores import FUZZ
from tasks import plural

from .robustness_text import condition_list, first_words, other_suites, reversed_text, unlearned_words

Safe = Callable[..., str]


def elsewhere(order: Robustness | None, others: Sequence[OrderComparison], lead: Sequence[str], safe: Safe) -> str:
    """Under which conditions, and in which other suites, the order holds, and what becomes of the leaders there."""
    parts = [text for text in (under_conditions(order, lead, safe), other_suites(others, safe)) if text]
    text = " ".join(parts) or "the order may differ."
    return text[0].lower() + text[1:]


def under_conditions(order: Robustness | None, lead: Sequence[str], safe: Safe) -> str:
    """Under which conditions of the suite the order holds, of those that decide it; empty if none does."""
    decided = [one for one in order.comparisons if one.holds is not None] if order else []
    if not (order and decided):
        return ""
    (_, everywhere), *_ = order.by_conditions.items()
    parts = []
    if held := [one for one in decided if one.holds]:
        parts.append(f"the order holds with {condition_list((one.condition for one in held), safe)} ({repeated(held)})")
    if changed := [
        f"{safe(condition_title(one.condition))} ({reversed_text(one.pairs, safe)})"
        for one in decided
        if one.pairs and not one.holds
    ]:
        parts.append(f"{'it' if held else 'the order'} does not hold with {listed(changed)}")
    if undecided := len(order.finished) - len(decided):
        parts.append(f"{plural(undecided, 'other condition')} {'is' if undecided == 1 else 'are'} undecided")
    text = f"{plural(len(everywhere), 'encoding')} ran again with one thing changed at a time: {'; '.join(parts)}. "
    text += leaders_elsewhere(order, lead, everywhere, safe)
    return f"{text} {unlearned_words(order.comparisons, safe)}".rstrip()


def leaders_elsewhere(order: Robustness, lead: Sequence[str], everywhere: Sequence[str], safe: Safe) -> str:
    """Which encodings are first under the conditions, how much the leaders change places, and which are always below them."""
    first: dict[tuple[str, ...], list[str]] = {}
    for one in order.comparisons:
        best = compress(one.encodings, one.scores >= one.scores.max() - FUZZ)
        first.setdefault(tuple(f"{safe(name)}'s" for name in best), []).append(one.condition)
    highest = "; ".join(f"{listed(names)} with {condition_list(conditions, safe)}" for names, conditions in first.items())
    text = f"The highest score is {highest}."
    ran = [name for name in lead if name in everywhere]
    taus = [one.tau_among(ran) for one in order.comparisons] if len(ran) > 2 else []
    if taus and not np.isnan(taus).any():
        among = f"{'the' if len(ran) == len(lead) else 'these'} {len(ran)} of tier 1"
        text += f" Among {among}, τ to the suite is {signed(min(taus))} to {signed(max(taus))}."
    scores = [dict(zip(one.encodings, one.scores, strict=True)) for one in order.comparisons]
    below = [
        safe(name) for name in everywhere if name not in lead and ran and all(s[name] < min(s[n] for n in ran) for s in scores)
    ]
    text += f" Below all of them under every condition: {listed(below)}." if below else ""
    absent = [safe(name) for name in lead if name not in everywhere]
    lacking = f" {listed(absent)} {'has' if len(absent) == 1 else 'have'} not run under every condition." if absent else ""
    return text + lacking


def tuned(order: Robustness, safe: Safe) -> str:
    """How far a score moves if each encoding takes the learning rate with the lowest loss."""
    if order.tuned is None or not order.tuned.changed:
        return ""
    moves = order.tuned.comparison.moves
    most = max(moves, key=lambda move: abs(move.change))
    scores = dict(zip(order.tuned.comparison.encodings, order.tuned.comparison.scores, strict=True))
    after, before = scores[most.encoding], scores[most.encoding] - most.change
    count = order.tuned.at_largest(order.rates)
    edge = f" For {count} the largest rate tried is the best, so a larger one may be better still." if count else ""
    return (
        f"it matters. With the one of the lowest loss for each encoding, {order.tuned.changed} of {len(moves)} scores change, "
        f"most that of {safe(most.encoding)}: {share(before)} → {share(after)}. The highest is then "
        f"{share(max(scores.values()))} ({seed_list(order.tuned.seeds)}): {first_words(order.tuned.comparison, safe)}.{edge}"
    )


def repeated(held: Iterable[OrderComparison]) -> str:
    """What it means that the order holds."""
    least = min((one.pairs for one in held if one.pairs), key=lambda pairs: pairs.same / pairs.total)
    return f"of {least.total} pairs separated in the suite, the test separates at least {least.same} again and reverses none"
