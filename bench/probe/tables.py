"""Summaries of probes as tables of text, one line per encoding, for the command line and the pages."""

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

import tasks

from .loss import Loss
from .record import ProbeRecord

ABSENT = "–"


class Table(NamedTuple):
    """A table of one probe on one task."""

    probe: str
    title: str
    header: list[str]
    rows: list[list[str]]


def number(value: float | None, digits: int = 3) -> str:
    return ABSENT if value is None else f"{value:.{digits}f}"


def mean(records: Iterable[ProbeRecord], quantity: str, **where: int | str | None) -> float | None:
    """Mean over runs of the means of a quantity."""
    found = [value for record in records if (value := record.mean(quantity, **where)) is not None]
    return fmean(found) if found else None


def lengths_of(records: Iterable[ProbeRecord], quantity: str) -> list[int]:
    return sorted({v.length for record in records for v in record.of(quantity) if v.length is not None})


def layers_of(records: Iterable[ProbeRecord], quantity: str) -> list[int]:
    return sorted({v.layer for record in records for v in record.of(quantity) if v.layer is not None})


Line = Callable[[Sequence[ProbeRecord]], list[str]]


def position(records: Sequence[ProbeRecord]) -> tuple[list[str], Line]:
    lengths, layers = lengths_of(records, "error"), layers_of(records, "error")
    states = [f"after layer {k}" if k else "input" for k in layers]
    header = [text for n in lengths for text in (f"l = {n}: chance", *states, "untrained, best")]

    def line(own: Sequence[ProbeRecord]) -> list[str]:
        cells = []
        for n in lengths:
            untrained = [x for k in layers if (x := mean(own, "untrained", length=n, layer=k)) is not None]
            cells += [number(mean(own, "chance", length=n), 1)]
            cells += [number(mean(own, "error", length=n, layer=k), 2) for k in layers]
            cells += [number(min(untrained, default=None), 2)]
        return cells

    return header, line


def distance(records: Sequence[ProbeRecord]) -> tuple[list[str], Line]:
    lengths, layers = lengths_of(records, "mean_distance"), layers_of(records, "mean_distance")
    header = [f"{name}, l = {n}, layer {k + 1}" for name in ("mean", "peak") for n in lengths for k in layers]

    def line(own: Sequence[ProbeRecord]) -> list[str]:
        names = ("mean_distance", "peak_distance")
        return [number(mean(own, name, length=n, layer=k), 2) for name in names for n in lengths for k in layers]

    return header, line


def growth(records: Sequence[ProbeRecord]) -> tuple[list[str], Line]:
    lengths = lengths_of(records, "output_std")
    inside, longest = min(lengths, key=lambda n: abs(n - records[0].train_length)), lengths[-1]
    names = {"entropy": "entropy / ln(i + 1)", "largest_weight": "largest weight", "logit_range": "logit range"}
    names |= {"output_std": "output std", "first_token": "heads on first token"}
    header = []
    for title in names.values():
        header += [f"{title}, l = {inside}", f"l = {longest}", "slope"]

    def line(own: Sequence[ProbeRecord]) -> list[str]:
        cells = []
        for name in names:
            cells += [number(mean(own, name, length=n), 2) for n in (inside, longest)]
            cells += [number(mean(own, f"slope of {name}"), 2)]
        return cells

    return header, line


def context(records: Sequence[ProbeRecord]) -> tuple[list[str], Line]:
    lengths = lengths_of(records, "accuracy")
    header = [f"{what}, {which}, l = {n}" for n in lengths for what in ("accuracy", "nats") for which in ("whole", "cut")]

    def line(own: Sequence[ProbeRecord]) -> list[str]:
        names = ("accuracy", "accuracy_cut", "nll", "nll_cut")
        return [number(mean(own, name, length=n), 2) for n in lengths for name in names]

    return header, line


def needle(records: Sequence[ProbeRecord]) -> tuple[list[str], Line]:
    lengths = lengths_of(records, "accuracy")
    header = [text for n in lengths for text in (f"l = {n}: mean", "worst depth")]

    def line(own: Sequence[ProbeRecord]) -> list[str]:
        cells = []
        for n in lengths:
            places = {v.at for record in own for v in record.of("accuracy", length=n)}
            by_depth = [x for at in places if (x := mean(own, "accuracy", length=n, at=at)) is not None]
            cells += [number(fmean(by_depth) if by_depth else None, 2), number(min(by_depth, default=None), 2)]
        return cells

    return header, line


def excess(records: Sequence[ProbeRecord]) -> tuple[list[str], Line]:
    lengths = lengths_of(records, "excess")
    return [f"l = {n}" for n in lengths], lambda own: [number(mean(own, "excess", length=n)) for n in lengths]


def mean_divergences(records: Iterable[ProbeRecord]) -> dict[tuple[str, str, str], float]:
    """(task, encoding, other encoding) → mean divergence at L over layers and pairs of models.

    The models of a pair are of different seeds if there are any: those of one seed begin with the same weights and see the same
    examples, which makes them more alike than two seeds of one encoding.
    """
    pairs: dict[tuple[str, str, str], dict[bool, list[float]]] = {}
    for record in records:
        for value in record.of("divergence", length=record.train_length):
            other, _, seed = value.at.rpartition(" seed ")
            if value.value is not None:
                found = pairs.setdefault((record.task, record.encoding, other), {True: [], False: []})
                found[seed != str(record.seed)].append(value.value)
    return {key: fmean(found[True] or found[False]) for key, found in pairs.items()}


def similarity(records: Sequence[ProbeRecord]) -> tuple[list[str], Line]:
    def line(own: Sequence[ProbeRecord]) -> list[str]:
        others = {other: value for (_, _, other), value in mean_divergences(own).items()}
        same = others.pop(own[0].encoding, None)
        ordered = sorted((value, name) for name, value in others.items())
        return [number(same), *(f"{name} {number(value)}" for value, name in ordered[:3]), *[""] * (3 - len(ordered[:3]))]

    return ["other seed", "nearest", "second", "third"], line


TITLES = {
    "position": "Absolute position read out of the residual stream: mean |error|, in tokens",
    "distance": "Normalised attention distance, mean over heads: 0 is the token itself, i/(i + 1) the first",
    "growth": "The attention as sequences grow, mean over layers and heads; slopes of ln x over ln T from L on",
    "context": "Accuracy with the whole sequence, and with all but the last tokens (the size at L) replaced",
    "needle": "Accuracy of the value by length: mean over depths of the key, and at the worst depth",
    "excess": "Language: nats a token above the optimum, by length",
    "similarity": "Jensen–Shannon divergence of the attention, nats: minimum over pairs of heads, mean over layers, at L",
    "loss": "Loss within the training length, nats per answer token, <eos> included",
}
SUMMARIES = {f.__name__: f for f in (position, distance, growth, context, needle, excess, similarity)}


def tables(records: Iterable[ProbeRecord]) -> list[Table]:
    """One table per probe and task, in the order of the records; a line is the mean over seeds."""
    groups: dict[tuple[str, str], list[ProbeRecord]] = {}
    for record in records:
        groups.setdefault((record.probe, record.task), []).append(record)
    found = []
    for probe in SUMMARIES:
        for (name, task), own in groups.items():
            if name == probe and any(record.values or record.note for record in own):
                measured = any(record.values for record in own)
                header, line = SUMMARIES[probe](own) if measured else ([""], lambda runs: [""])
                rows = []
                for encoding in dict.fromkeys(record.encoding for record in own):
                    runs = [record for record in own if record.encoding == encoding]
                    cells = line(runs) if any(r.values for r in runs) else [""] * len(header)
                    rows.append([": ".join([encoding, *sorted({r.note for r in runs if r.note})]), *cells])
                found.append(Table(probe, f"{TITLES[probe]} ({tasks.title(task).lower()})", ["encoding", *header], rows))
    return found


def loss_tables(losses: Sequence[Loss]) -> list[Table]:
    """One table per task: the loss by length, a line per encoding and size."""
    found = []
    for task in dict.fromkeys(loss.task for loss in losses):
        own = [loss for loss in losses if loss.task == task]
        lengths = sorted({n for loss in own for n in loss.by_length})
        header = ["encoding", "layers", "width", "parameters", "seeds", *(f"l = {n}" for n in lengths), "mean"]
        rows = [
            [loss.encoding, str(loss.layers), str(loss.width), f"{loss.parameters:,}", str(loss.seeds)]
            + [number(loss.by_length.get(n), 4) for n in lengths]
            + [number(loss.mean, 4)]
            for loss in own
        ]
        title = f"{TITLES['loss']} ({tasks.title(task).lower()})"
        found.append(Table("loss", title, header, rows))
    return found
