"""What probes found, in words, each next to what a paper found; every verdict follows from a rule that is written with it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

from bench.probe.record import ProbeRecord
from bench.probe.tables import layers_of, lengths_of, mean, mean_divergences
from leaderboard.figures.inside import Records, encodings_of, of, tasks_of
from leaderboard.format import plural, share

BASE = "nope"
FALLS = 0.9
"""Share of models in which something must fall with length to count as falling."""

NOTHING = {"nll": 0.02, "accuracy": 0.05}
"""What counts as no loss."""


class Finding(NamedTuple):
    claim: str
    paper: str
    """With what it measured."""
    ours: str
    found: bool
    """By the means over seeds."""
    rule: str
    by_seed: tuple[bool, ...] = ()
    """The same for each seed alone that has what the rule needs."""

    @property
    def verdict(self) -> str:
        said, seeds = "found" if self.found else "not found", self.by_seed
        if len(seeds) < 2:
            return f"{said} (one seed)"
        if set(seeds) != {self.found}:
            return (
                f"not decided (it holds in {sum(seeds)} of {len(seeds)} seeds, and {'' if self.found else 'not '}in the mean)"
            )
        return f"{said} (in {'each' if self.found else 'none'} of {len(seeds)} seeds)"


def findings(records: Records) -> list[Finding]:
    """All claims that the records of a suite decide."""
    positions = learns_positions, has_positions, alibi_positions
    attention = similar, unused_context, falling_weight, falling_output
    found = []
    for decide in (*positions, *attention, extrapolation, loss_order):
        if finding := decide(records):
            seeds = sorted({record.seed for record in records})
            alone = [decide([record for record in records if record.seed == seed]) for seed in seeds]
            found.append(finding._replace(by_seed=tuple(one.found for one in alone if one)))
    return found


def error_shares(records: Records, encoding: str, quantity: str = "error") -> dict[str, list[float]]:
    """Task → error of the position probe at L by layer, as a share of chance."""
    shares = {}
    for task in tasks_of(of(records, "position", encoding=encoding)):
        own = of(records, "position", encoding=encoding, task=task)
        length = own[0].train_length
        chance, layers = mean(own, "chance", length=length), layers_of(own, quantity)
        errors = [mean(own, quantity, length=length, layer=k) for k in layers]
        if chance and None not in errors:
            shares[task] = [error / chance for error in errors if error is not None]
    return shares


def by_layer(shares: Iterable[Sequence[float]]) -> list[float]:
    """Mean over tasks."""
    return [fmean(layer) for layer in zip(*shares, strict=True)]


def slashed(values: Sequence[float]) -> str:
    return "/".join(map(share, values))


def learns_positions(records: Records) -> Finding | None:
    shares = error_shares(records, BASE)
    if not shares:
        return None
    before = error_shares(records, BASE, "untrained")
    trained, untrained = by_layer(shares.values()), by_layer(before.values())

    def learnt(trained: Sequence[float], untrained: Sequence[float]) -> bool:
        return trained[0] >= 0.7 and min(trained[1:]) <= min(0.35, *untrained[1:])

    alone = [task for task in shares if learnt(shares[task], before[task])]
    return Finding(
        "A causal model without encoding learns absolute positions in its first layers",
        "Haviv et al. 2022: error 337/80/17/21/133 of 341 by chance at layers 0/2/4/12/24",
        f"nope, mean over {plural(len(shares), 'task')}, error as a share of chance by layer: {slashed(trained)}; "
        f"before its training: {slashed(untrained)}; on single tasks it holds with {', '.join(alone) or 'none'}",
        learnt(trained, untrained),
        "at least .7 of chance at the input, and after some layer at most .35 and less than ever before training",
    )


def has_positions(records: Records) -> Finding | None:
    found = {name: error_shares(records, name) for name in ("learned", "sinusoidal")}
    shares = {name: by_layer(by_task.values()) for name, by_task in found.items() if by_task}
    if len(shares) < 2:
        return None
    return Finding(
        "Encodings that are added to the embedding have positions from the start",
        "Haviv et al. 2022: learned 11/8/7/18/129, sinusoidal .01/.02/.25/1.9/92 of 341",
        "; ".join(f"{name} {slashed(values)} of chance" for name, values in shares.items()),
        all(values[0] <= 0.1 for values in shares.values()),
        "at most .1 of chance at the input, both",
    )


def alibi_positions(records: Records) -> Finding | None:
    found = {name: error_shares(records, name) for name in (BASE, "alibi")}
    both = found[BASE].keys() & found["alibi"].keys()
    if not both:
        return None
    ours = {name: by_layer([by_task[task] for task in sorted(both)]) for name, by_task in found.items()}
    return Finding(
        "With ALiBi absolute positions are harder to read than without encoding",
        "Haviv et al. 2022: ALiBi 337/288/184/53/171, none 337/80/17/21/133 of 341",
        "; ".join(f"{name} {slashed(values)} of chance" for name, values in ours.items()),
        fmean(ours["alibi"][1:]) > fmean(ours[BASE][1:]),
        "the larger mean error over the layers after the input",
    )


def similar(records: Records) -> Finding | None:
    means: dict[str, list[float]] = {}
    for (_, _, other), value in mean_divergences(of(records, "similarity", encoding=BASE)).items():
        means.setdefault(other, []).append(value)
    seeds = means.pop(BASE, None)
    order = sorted((fmean(values), name) for name, values in means.items())
    wanted = ("t5", "alibi", "sinusoidal", "rope")
    places = {name: value for value, name in order if name in wanted}
    if len(places) < len(wanted):
        return None
    nearest = ", ".join(f"{name} {share(value)}" for value, name in order[:6])
    relative = max(places["t5"], places["alibi"]) < min(places["sinusoidal"], places["rope"])
    return Finding(
        "The attention without encoding is closer to that of T5 and ALiBi than to that of RoPE and sinusoidal positions",
        "Kazemnejad et al. 2023: distance from NoPE: T5 .40, ALiBi 2.35, sinusoidal 3.65, RoPE 4.23 (their own scale)",
        f"mean divergence from nope at L, nats: {nearest}; of the four: "
        + ", ".join(f"{name} {share(value)}" for name, value in sorted(places.items(), key=lambda item: item[1]))
        + (f"; two seeds of nope {share(fmean(seeds))}" if seeds else ""),
        relative,
        "t5 and alibi both closer to nope than sinusoidal and rope, between models of different seeds where there are some",
    )


def unused_context(records: Records) -> Finding | None:
    """In nats on language, as published; on other tasks in accuracy."""
    quantity = "nll" if of(records, "context", task="language") else "accuracy"
    lost: dict[str, dict[str, float]] = {}  # task → encoding
    for task in tasks_of(of(records, "context")):
        for name in encodings_of(of(records, "context", task=task)):
            runs = of(records, "context", task=task, encoding=name)
            length = lengths_of(runs, quantity)[-1]
            whole, cut = mean(runs, quantity, length=length), mean(runs, f"{quantity}_cut", length=length)
            if whole is not None and cut is not None:
                lost.setdefault(task, {})[name] = cut - whole if quantity == "nll" else whole - cut
    alibi = [by_encoding["alibi"] for by_encoding in lost.values() if "alibi" in by_encoding]
    if not alibi:
        return None
    listed = (
        f"{task}: " + ", ".join(f"{name} {by_encoding[name]:.3f}" for name in sorted(by_encoding, key=by_encoding.__getitem__))
        for task, by_encoding in lost.items()
    )
    unit = "nats a word" if quantity == "nll" else "accuracy"
    return Finding(
        "ALiBi gains nothing from context past L",
        "Press et al. 2022, appendix B: perplexity 17.98 with 512 tokens of context, as in training, and 18.30 with 3,072 "
        "(second-hand)",
        f"{unit} lost at the longest length when the tokens before the last N are replaced. " + ". ".join(listed),
        max(alibi) <= NOTHING[quantity],
        f"alibi loses at most {NOTHING[quantity]}, on every task",
    )


def slopes(records: Records, quantity: str) -> list[float]:
    """The slope of each model, mean over layers."""
    found = [record.mean(f"slope of {quantity}") for record in of(records, "growth")]
    return [value for value in found if value is not None]


def falling(records: Records, quantity: str, claim: str, paper: str) -> Finding | None:
    values = slopes(records, quantity)
    if not values:
        return None
    count = sum(value < 0 for value in values)
    return Finding(
        claim,
        paper,
        f"falls in {count} of {len(values)} models; log–log slope over length {fmean(values):.2f} in the mean, "
        f"{min(values):.2f} to {max(values):.2f}",
        count >= FALLS * len(values),
        f"a negative slope in {FALLS:.0%} of the models",
    )


def falling_weight(records: Records) -> Finding | None:
    claim = "The largest attention weight falls as the sequence grows"
    return falling(records, "largest_weight", claim, "Veličković et al. 2024 (2410.01104): must fall, for bounded logits")


def falling_output(records: Records) -> Finding | None:
    claim = "The standard deviation of the attention's output falls with length"
    return falling(records, "output_std", claim, "arXiv 2504.02827: falls, by −½ for uniform attention over independent tokens")


def excesses(records: Records, longest: bool) -> dict[str, float]:
    """Encoding → nats above the optimum at L, or at the longest length."""
    own = of(records, "excess")
    found = {}
    for name in encodings_of(own):
        runs = [record for record in own if record.encoding == name]
        value = mean(runs, "excess", length=lengths_of(runs, "excess")[-1] if longest else runs[0].train_length)
        if value is not None:
            found[name] = value
    return found


def extrapolation(records: Records) -> Finding | None:
    inside, outside = excesses(records, False), excesses(records, True)
    if not {"alibi", "sinusoidal"} <= inside.keys():
        return None
    growing = {name: outside[name] - inside[name] for name in inside}
    return Finding(
        "In language past L, ALiBi holds and sinusoidal positions fail",
        "Press et al. 2022: perplexity at 512 and 3,072: ALiBi 17.98 and 18.30, T5 17.92 and 30.77, sinusoidal 18.35 and "
        "360 (second-hand)",
        "nats above the optimum at L and at the longest length: "
        + ", ".join(f"{name} {inside[name]:.3f} and {outside[name]:.3f}" for name in sorted(inside, key=outside.__getitem__)),
        growing["alibi"] <= 0.1 < 0.3 < growing["sinusoidal"],
        "alibi grows by at most .1 nats, sinusoidal by more than .3",
    )


def loss_order(records: Records) -> Finding | None:
    inside = excesses(records, False)
    order = ["nope", "learned", "sinusoidal", "alibi"]
    if not set(order) <= inside.keys():
        return None
    ordered = sorted(inside, key=inside.__getitem__)
    return Finding(
        "Within the training length, language is learned worst without encoding and best with ALiBi",
        "Haviv et al. 2022, main_pile.csv: perplexity none 13.10, learned 13.05, sinusoidal 12.93, ALiBi 12.51",
        "nats above the optimum at L: " + ", ".join(f"{name} {inside[name]:.4f}" for name in ordered),
        [name for name in ordered if name in order] == order[::-1],
        "the same order of the four",
    )


def seeds_of(records: Sequence[ProbeRecord]) -> str:
    """How many seeds each cell has, such as ``1 to 3 seeds``."""
    cells = Counter((record.task, record.encoding) for record in records)
    low, high = min(cells.values()), max(cells.values())
    return plural(high, "seed") if low == high else f"{low} to {plural(high, 'seed')}"
