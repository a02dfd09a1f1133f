"""Figures of probes (``bench.probe``): of a suite, for the page "Inside the models", and of one encoding, for its own page."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

import tasks
from bench.probe.record import ProbeRecord
from leaderboard.data.probes import layers_of, lengths_of, mean, mean_divergences
from leaderboard.format import printable

from .inside_panels import Heat, Line, Lines, draw_heats, draw_lines
from .theme import Theme

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GROWING = {
    "entropy": "entropy / ln(i + 1)",
    "largest_weight": "largest weight",
    "output_std": "std of the output",
    "logit_range": "range of the logits",
    "first_token": "share of heads on the first token",
}
"""Quantity of the probe ``growth`` → title of its panel."""

Records = Sequence[ProbeRecord]


def points(found: Mapping[Any, float | None]) -> Line:
    """x → y as a line, without the unknown y."""
    known = {x: y for x, y in found.items() if y is not None}
    return list(known), list(known.values())


def by_layer(runs: Records, quantity: str, length: int, first: int = 1) -> Line:
    """A quantity by layer, numbered from ``first``."""
    return points({first + k: mean(runs, quantity, length=length, layer=k) for k in layers_of(runs, quantity)})


def by_length(runs: Records, quantity: str) -> Line:
    """A quantity by length, in multiples of L."""
    return points({n / runs[0].train_length: mean(runs, quantity, length=n) for n in lengths_of(runs, quantity)})


def chance_at_l(runs: Records) -> float:
    """Error of a random position, at length L."""
    return mean(runs, "chance", length=runs[0].train_length) or 1.0


def share_of_chance(runs: Records, chance: float, quantity: str = "error") -> Line:
    """Error of the position probe by layer, at length L, as a share of that of a random position. Layer 0 is the input."""
    layers, errors = by_layer(runs, quantity, runs[0].train_length, first=0)
    return layers, [error / chance for error in errors]


def split(records: Records, field: str) -> dict[str, list[ProbeRecord]]:
    """Records by ``task`` or ``encoding``, in the order of their first ones."""
    found: dict[str, list[ProbeRecord]] = {}
    for record in records:
        found.setdefault(getattr(record, field), []).append(record)
    return found


def of(records: Records, probe: str, **where: object) -> list[ProbeRecord]:
    """The records of a probe with values, at the given task or encoding."""
    return [r for r in records if r.probe == probe and r.values and all(getattr(r, k) == x for k, x in where.items())]


# --- figures of a suite


def position(records: Records, theme: Theme) -> "Figure":
    panels = []
    for task, own in split(of(records, "position"), "task").items():
        chance, by_name = chance_at_l(own), split(own, "encoding")
        lines = {name: share_of_chance(runs, chance) for name, runs in by_name.items()}
        untrained = [share_of_chance(by_name["nope"], chance, "untrained")] if "nope" in by_name else []
        panels.append(Lines(tasks.title(task), lines, "layer", untrained))
    return draw_lines(
        "Where is the position? Error of a probe by layer, on sequences of length L", panels, theme,
        "mean distance of the predicted position from the true one, relative to that of two random positions",
        ["layer 0 is the input of the first layer, layer n the output of the n-th",
         "thin grey dashes: nope before its training"],
    )  # fmt: skip


def distance(records: Records, theme: Theme) -> "Figure":
    panels = []
    for task, own in split(of(records, "distance"), "task").items():
        by_name = split(own, "encoding")
        lengths, layers = lengths_of(own, "mean_distance"), layers_of(own, "mean_distance")
        heads = sorted({v.head or 0 for v in own[0].of("mean_distance")})
        for length in (own[0].train_length, lengths[-1]):
            rows = []
            for runs in by_name.values():
                by_head = [[mean(runs, "mean_distance", length=length, layer=k, head=h) for h in heads] for k in layers]
                # Heads have no order: sorted, encodings can be compared.
                rows.append([x for layer in by_head for x in sorted(np.nan if x is None else x for x in layer)])
            columns = [f"{k + 1}" if n == 0 else "" for k in layers for n in range(len(heads))]
            panels.append(Heat(f"{tasks.title(task)}, l = {length}", np.array(rows, float), list(by_name), columns, 1.0))
    return draw_heats(
        "How far back does each head look? Mean distance by layer and head, at L and at the longest length", panels, theme, 2,
        ["mean of Σ A_ij (i − j)/(i + 1) over the places i that predict the answer: 0 is the token itself, near 1 the first",
         "columns: layers, in each its heads from the nearest to the farthest"],
    )  # fmt: skip


def growth(records: Records, theme: Theme) -> "Figure":
    """On the task that is tested at the largest multiple of L."""
    task, own = widest(of(records, "growth"))
    where, panels = printable(tasks.title(task).lower()), []
    for quantity, title in GROWING.items():
        lines = {name: by_length(runs, quantity) for name, runs in split(own, "encoding").items()}
        panels.append(Lines(title, {k: line for k, line in lines.items() if line[0]}, "length, in multiples of L", log=True))
    return draw_lines(
        f"What changes as sequences grow? Attention on {where}, mean over layers and heads", panels, theme,
        "see the title of each panel", ["at the places where the answer is predicted"],
    )  # fmt: skip


def widest(records: Records) -> tuple[str, list[ProbeRecord]]:
    """The task whose lengths reach the largest multiple of L, and its records."""

    def reach(item: tuple[str, list[ProbeRecord]]) -> float:
        first = item[1][0]
        return max(v.length or 0 for v in first.values) / first.train_length

    return max(split(records, "task").items(), key=reach)


def context(records: Records, theme: Theme) -> "Figure":
    panels = []
    for task, own in split(of(records, "context"), "task").items():
        lines = {name: lost(runs) for name, runs in split(own, "encoding").items()}
        panels.append(Lines(tasks.title(task), lines, "length, in multiples of L", log=True))
    return draw_lines(
        "Is context past L used? Accuracy lost without it", panels, theme,
        "accuracy of answer tokens with the whole sequence, less that with the tokens before the last N replaced",
        ["N: tokens of a sequence of length L", "answer tokens with more than N tokens before them, <eos> not counted"],
    )  # fmt: skip


def lost(records: Records) -> Line:
    """Length in multiples of L, and the accuracy lost without the context before the last tokens."""
    found = {}
    for n in lengths_of(records, "accuracy"):
        whole, cut = mean(records, "accuracy", length=n), mean(records, "accuracy_cut", length=n)
        found[n / records[0].train_length] = None if whole is None or cut is None else whole - cut
    return points(found)


def needle(records: Records, theme: Theme) -> "Figure":
    own = of(records, "needle")
    lengths = lengths_of(own, "accuracy")
    depths = sorted({v.at for v in own[0].of("accuracy")}, key=int)
    panels = []
    for name, runs in split(own, "encoding").items():
        values = [[mean(runs, "accuracy", length=n, at=d) for n in lengths] for d in depths]
        labels = [f"{100 * (int(d) + 0.5) / len(depths):.0f}\u00a0%" for d in depths]
        panels.append(Heat(name, np.array(values, float), labels, [str(n) for n in lengths], 1.0))
    return draw_heats(
        "Needle by depth and length: accuracy of the value", panels, theme, 4,
        [f"x axis: length (L = {own[0].train_length}); y axis: place of the key; 0 % is the start, far from the question"],
        names=0.45,
    )  # fmt: skip


def divergences(records: Records) -> dict[tuple[str, str], list[float]]:
    """(encoding, other encoding) → divergence at L on each task; only pairs of which both have records."""
    own = of(records, "similarity")
    known = split(own, "encoding")
    pairs: dict[tuple[str, str], list[float]] = {}
    for (_, one, other), value in mean_divergences(own).items():
        if other in known:
            pairs.setdefault((one, other), []).append(value)
    return pairs


def divergence_matrix(records: Records) -> tuple[list[str], Float[np.ndarray, "E E"]]:
    """Encodings in the order of a clustering, and their mean divergence over tasks and layers at L; NaN where it is unknown.

    On the diagonal: between seeds of one encoding.
    """
    from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
    from scipy.spatial.distance import squareform

    names = list(split(of(records, "similarity"), "encoding"))
    table = np.full((len(names), len(names)), np.nan)
    for (one, other), by_task in divergences(records).items():
        table[names.index(one), names.index(other)] = np.mean(by_task)
    known = np.where(np.isfinite(table), table, np.nanmax(table))
    known = (known + known.T) / 2
    np.fill_diagonal(known, 0)
    order = np.arange(len(names))
    if len(names) > 2:
        tree = linkage(squareform(known), "average")
        order = leaves_list(optimal_leaf_ordering(tree, squareform(known)))
    return [names[n] for n in order], table[np.ix_(order, order)]


def similarity(records: Records, theme: Theme) -> "Figure":
    names, table = divergence_matrix(records)
    panel = Heat("", table, names, names, float(np.nanmax(table)))
    return draw_heats(
        "Whose attention is like whose? Jensen–Shannon divergence, nats", [panel], theme, 1,
        ["minimum over pairs of heads, mean over layers and tasks, at length L; ordered by average linkage",
         "models of different seeds where there are some; diagonal: two seeds of the same encoding"], cell=0.42,
    )  # fmt: skip


def excess(records: Records, theme: Theme) -> "Figure":
    own = of(records, "excess")
    longest, train_length = lengths_of(own, "excess")[-1], own[0].train_length
    lengths, by_position = {}, {}
    for name, runs in split(own, "encoding").items():
        lengths[name] = by_length(runs, "excess")
        places = sorted({int(v.at) for r in runs for v in r.of("excess at", length=longest)})
        by_position[name] = points({p / train_length: mean(runs, "excess at", length=longest, at=str(p)) for p in places})
    panels = [
        Lines("by length, mean over positions", lengths, "length, in multiples of L", log=True),
        Lines("by position, at the longest length", by_position, "position, in multiples of L", log=True),
    ]
    return draw_lines("Language: nats a token above the optimum", panels, theme, "nats", ["0 is the true distribution"])


# --- the figure of an encoding


def encoding_figure(records: Records, name: str, theme: Theme) -> "Figure":
    """Position error by layer, mean distance by layer, entropy by length and accuracy lost without context, a line per task."""

    def by_task(probe: str, line: Callable[[Records], Line]) -> dict[str, Line]:
        own = split(of(records, probe, encoding=name), "task")
        return {tasks.title(task): found for task, runs in own.items() if (found := line(runs))[0]}

    by_layers = {
        "position error / chance, at L": by_task("position", lambda runs: share_of_chance(runs, chance_at_l(runs))),
        "mean distance, at L": by_task("distance", lambda runs: by_layer(runs, "mean_distance", runs[0].train_length)),
        "mean distance, at L′": by_task(
            "distance", lambda runs: by_layer(runs, "mean_distance", lengths_of(runs, "mean_distance")[-1])
        ),
    }
    by_lengths = {
        GROWING["entropy"]: by_task("growth", lambda runs: by_length(runs, "entropy")),
        GROWING["output_std"]: by_task("growth", lambda runs: by_length(runs, "output_std")),
        "accuracy lost without context past L": by_task("context", lost),
    }
    panels = [Lines(title, lines, "layer") for title, lines in by_layers.items() if lines]
    panels += [Lines(title, lines, "length, in multiples of L", log=True) for title, lines in by_lengths.items() if lines]
    notes = ["layer 0 is the input of the first layer"]
    return draw_lines(f"{printable(name)}: inside the model", panels, theme, "see each title", notes)


SUITE_FIGURES = {f.__name__: f for f in (position, distance, similarity, context, needle, growth, excess)}
"""Probe → figure of its records."""
ALTS = {
    "position": "Error of the position probe by layer, one panel per task",
    "distance": "Mean attention distance of each head, one panel per task and length",
    "similarity": "Divergence of the attention of every two encodings",
    "context": "Accuracy lost without the context past L, one panel per task",
    "needle": "Accuracy by depth of the needle and length, one panel per encoding",
    "growth": "Entropy, largest weight and other numbers of the attention by length",
    "excess": "Nats a token above the optimum by length and by position",
}
