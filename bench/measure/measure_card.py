"""Create and update the cards of encodings; ``lprime publish`` stores them with the results."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict

import torch

from bench import encodings
from bench.encodings import Encoding
from bench.encodings.compose import resolve
from bench.plugins.source_hash import source_hash
from bench.runs.devices import current_commit, device_name, package_versions
from bench.runs.run import now
from tasks import InputError

from .card import Card, CostAt, Declared, Measured
from .cost import COST_SUITE, COST_TASK, cost_setup, measure_costs
from .properties import measure_properties

ROUNDS = 11
"""Steps timed at each length. On a machine with other load, the median of five can be off by a sixth."""


def measure_cards(names: Iterable[str], known: Mapping[str, Card] | None = None, measure: bool = True) -> dict[str, Card]:
    """Return ``known`` with up-to-date cards of the named encodings that are built in.

    Encodings without a measurement, whose source has changed, or that were measured at another L, are measured (seconds each).

    Arguments:
        known: existing cards, by name. Cards of encodings that no longer exist are kept.
        measure: False to update only the declarations.
    """
    cards = dict(known or {})
    for name in sorted(set(names)):
        try:
            cls = resolve(name, encodings.classes())
        except InputError:
            continue  # the name in a result must not run code of a plugin
        card = cards.get(name, Card())
        if measure and not (card.measured and is_current(card.measured, cls)):
            card = card.model_copy(update={"measured": measure_encoding(cls)})
        cards[name] = card.model_copy(update={"declared": declared(cls)})
    return cards


def is_current(measured: Measured, cls: type[Encoding]) -> bool:
    """Whether the source, and the length at which costs are measured, are the same as then."""
    return measured.source_sha256 == source_hash(cls) and measured.costs[0].length == cost_setup()[1].train_tokens


def with_catalogue(cards: Mapping[str, Card], published: Iterable[str]) -> dict[str, Card]:
    """Return cards of the published and of all built-in encodings; other cards are dropped.

    Built-in encodings without runs get cards with declarations only, so that the board can list them.

    Arguments:
        published: names of encodings that have results.
    """
    built_in = set(encodings.catalogue())
    kept = {name: card for name, card in cards.items() if name in {*published} | built_in}
    return measure_cards(built_in, kept, measure=False)


def declared(cls) -> Declared:
    info = cls.info
    return Declared(
        authors=info.authors,
        formula=info.formula,
        past=info.past,
        provenance=info.provenance,
        hooks=encodings.hooks(cls),
        shift_invariant=info.shift_invariant,
        random=info.random,
        stage_share=cls.stage.share if cls.stage else None,
        source=info.source,
        lengths=info.lengths,
    )


def measure_encoding(cls, rounds: int = ROUNDS) -> Measured:
    """Measure one encoding on one CPU thread, with ``rounds`` timed steps at each length."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        cpu, wall = time.process_time(), time.perf_counter()
        costs = [CostAt(**{k: round(v, 3) for k, v in cost}) for cost in measure_costs(cls, rounds=rounds)]
        cpu_share = (time.process_time() - cpu) / (time.perf_counter() - wall)
        return Measured(
            properties=asdict(measure_properties(cls)),
            costs=costs,
            suite=COST_SUITE,
            task=COST_TASK,
            source_sha256=source_hash(cls),
            versions=package_versions(),
            device=device_name(torch.device("cpu")),
            threads=1,
            commit=current_commit(),
            cpu_share=round(cpu_share, 3),
            finished=now(),
        )
    finally:
        torch.set_num_threads(threads)
