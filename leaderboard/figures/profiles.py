"""Performance profiles: share of an encoding's runs that score above each threshold."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from leaderboard.format import printable, share
from leaderboard.stats import bootstrap
from leaderboard.stats import scores as st
from leaderboard.stats.rows import Classes, all_rows

from .canvas import single_axes
from .highlight import highlighted, ranked_apart
from .panels import APART
from .text_layout import NORMAL, POINT, fitted
from .theme import Theme

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REFERENCES = ("nope", "alibi", "rope")
BEST = 3
"""Encodings with a band besides ``REFERENCES``: the first of the ranking."""
MOST = 6
"""Up to this many encodings, all have a band; more bands would hide each other."""
HEIGHT, LEGEND = 3.6, 2.0
"""Inches: height of the axes, and room for the legend."""


def draw_profiles(classes: Classes, theme: Theme) -> "Figure":
    """The best few encodings and some references with bands, all others grey. Encodings without a score are left out."""
    rows = {row.name: row for row in all_rows(classes) if row.complete}
    looks, apart = highlighted(classes), ranked_apart(classes)  # the same colours as in the other figures
    members = {name: looks[name] for name in highlighted(classes, REFERENCES, BEST, MOST) if name in rows}
    notes = ["higher is better; each step is a run", "number: the score, which is the area under the curve"]
    if any(row.interval for row in rows.values()):
        notes.append(f"bands: {100 * st.LEVEL:g}\u00a0% by stratified bootstrap, pointwise in τ")
    if others := len(rows) - len(members):
        notes.append(f"named: the first {BEST} of the ranking, {', '.join(REFERENCES)}; grey: the {others} others")
    if apart & set(members):
        notes.append(f"{APART} ranked apart")
    title = "Performance profiles: share of runs that score above τ, mean over tasks"
    figure, ax = single_axes(title, HEIGHT, theme, right=LEGEND, notes=notes)
    ax.set(xlim=(0, 1), ylim=(-0.03, 1.03), xlabel="score τ", ylabel="share of runs above τ")
    ticks = [0, 0.25, 0.5, 0.75, 1], ["0", ".25", ".5", ".75", "1"]
    ax.set_xticks(*ticks)
    ax.set_yticks(*ticks)
    for name, row in rows.items():
        if name not in members:
            ax.step(*profile(row.scores), where="post", color=theme.grey, linewidth=0.6, zorder=1, label="others")
    for depth, (name, style) in enumerate(reversed(members.items())):
        line: dict[str, Any] = {"color": style.colour(theme), "linestyle": style.dashes}
        line |= {"linewidth": 2.2 - depth / max(1, len(members) - 1), "zorder": 3 + depth / len(members)}
        x, y = profile(rows[name].scores)
        ax.step(x, y, where="post", label=name, **line)
        if (ends := bootstrap.profile_band(rows[name].scores, x)) is not None:
            band: dict[str, Any] = {"color": style.colour(theme), "linewidth": 0, "alpha": 0.14, "zorder": 2}
            ax.fill_between(x, ends[0], ends[1], step="post", label=f"band of {name}", **band)
    handles = {line.get_label(): line for line in ax.get_lines()}
    scores = {name: st.mean_score(rows[name].scores) for name in members}
    order = sorted(members, key=lambda name: (-scores[name], name))
    names = [fitted(printable(name), (LEGEND - 1.1) / POINT, NORMAL) + f" {APART}" * (name in apart) for name in order]
    texts = [f"{share(scores[name])}  {shown}" for name, shown in zip(order, names, strict=True)]
    ax.legend([handles[name] for name in order], texts, loc="upper left", bbox_to_anchor=(1, 1), fontsize=NORMAL)
    return figure


def profile(scores: Sequence[Float[np.ndarray, " S"]]) -> tuple[Float[np.ndarray, " K"], Float[np.ndarray, " K"]]:
    """Thresholds from 0 to 1 at which the profile falls, and its value from each of them to the next."""
    at = np.unique(np.concatenate([[0.0], *scores, [1.0]]))
    return at, st.performance_profile(scores, at)
