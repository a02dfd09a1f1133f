"""Numbers and names as text. Figures and tables share no other formatting."""

import unicodedata
from collections.abc import Sequence
from pathlib import Path

from bench.result import Result
from bench.suites.suite import suite_command
from leaderboard.stats.scores import DIGITS, Reach

FLAG = "⚑"
BUSY = "‡"
"""Marks a time measured while the machine was busy with other work."""
VISIBLE_CHANCE = 0.02
"""Chance levels above this are shown next to the accuracies."""
SECOND_HAND = "≈"
"""Marks the name of an encoding whose source is second-hand."""
ABSENT = "–"
RANKING_TITLES = {
    "standard": "Main table: trained at lengths up to L only",
    "longer": "Longer lengths: saw lengths beyond L in training or fine-tuning",
    "task-aware": "Task-aware: uses the meaning of the tokens",
}
"""Ranking class → its heading, in tables, figures and pages."""

FAMILIES = {
    "none": ("none", "only the causal mask shows the order"),
    "absolute": ("absolute", "a vector for each position, in the embedding"),
    "relative": ("relative", "learned vectors or factors for distances"),
    "bias": ("score bias", "a number for each distance, added to attention scores"),
    "rotary": ("rotary", "queries and keys rotated by position"),
    "scaling": ("scaling", "attention scores scaled by length"),
    "contextual": ("by content", "depends on the tokens, not on positions alone"),
    "ids": ("position ids", "changes the positions that another encoding sees"),
    "training": ("extra stage", "a further stage of training"),
    "task-aware": ("task-aware", "ids that follow the meaning of tokens"),
}
"""Family → its short title, wherever a family is shown, and what its encodings are. Related families are next to each other."""


def family_title(name: str) -> str:
    """The title of a family, whether built in or declared by a plugin."""
    return FAMILIES[name][0] if name in FAMILIES else printable(name, 24)


def ranking_title(name: str) -> str:
    """The heading of a ranking class, whether built in or declared by a plugin."""
    return RANKING_TITLES.get(name) or f"Ranking class {printable(name)}"


def printable(text: str, limit: int = 80) -> str:
    """One non-empty line of visible text.

    White space becomes single blanks, control and format characters and those that XML forbids become U+FFFD, and text beyond
    ``limit`` characters is cut with an ``…``.
    """
    shown = "".join(" " if c.isspace() else "�" if is_unprintable(c) else c for c in text)
    shown = " ".join(shown.split()) or "(blank)"
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def is_unprintable(character: str) -> bool:
    """Whether it is a control or format character, half a surrogate pair, or one of Unicode's 66 noncharacters."""
    code = ord(character)
    return unicodedata.category(character) in ("Cc", "Cf", "Cs") or code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF


def share(value: float) -> str:
    """A number in 0 … 1 to the printed precision, without its leading zero: ``.423``, ``1.000``."""
    return f"{value:.{DIGITS}f}".removeprefix("0")


def signed(value: float) -> str:
    """``.423``, ``−.100``."""
    return f"−{share(-value)}" if round(value, DIGITS) < 0 else share(abs(value))


def p_value(p: float) -> str:
    return "<.001" if p < 0.001 else share(p)


def reach_text(reach: Reach, decimals: int = 2) -> str:
    """``1.42``, ``≥ 5.00`` or ``< 0.25``, in multiples of L."""
    return f"{reach.mark} {reach.at:.{decimals}f}".lstrip()


def times(value: float) -> str:
    """A factor with up to two decimals: ``1.5``, ``2``, ``1.17``."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


MOST_LISTED = 8
"""Most names in a list."""


def listed(names: Sequence[str], most: int = MOST_LISTED) -> str:
    """``a, b and c``; those past ``most`` are counted."""
    rest = len(names) - most
    shown = [*names[:most], f"{rest} other{'s' * (rest > 1)}"] if rest > 0 else names
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def seed_list(seeds: Sequence[int]) -> str:
    """``seed 3`` or ``seeds 0, 1, 2``."""
    return f"seed{'s' * (len(seeds) != 1)} {', '.join(map(str, seeds))}"


def rerun_command(run: Result) -> str:
    """``lprime run small --encoding rope --task copying --seed 0 --out again``."""
    options = ["--encoding", run.encoding.name, "--task", run.task, "--seed", run.seed]
    return suite_command("run", run.suite, *options, out=Path("again"))


def number_range(values: Sequence[int]) -> str:
    """``800``, or ``800 to 1,200`` where tasks differ."""
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
