"""Cards: what encodings declare of themselves and what was measured of them, kept in the store beside the runs.

Measured when results are published and read when the board is rendered, which therefore gives the same bytes everywhere and
needs neither torch nor the encodings' source.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from bench.results import QUIET, Record, first_fault
from tasks import InputError

from .grid import Grid, Price
from .store import RESULTS, read, write_changed

CARDS = "cards.json"
ROUNDS = 11
"""Steps timed at each length. On a machine that does other work too, five leave the median off by a sixth."""


class Declared(Record):
    """What a result does not say of its encoding. See ``bench.encodings.Info``."""

    authors: str
    formula: str
    past: str
    provenance: str
    hooks: list[str]
    shift_invariant: bool
    random: bool
    stage_share: float | None = None
    """Steps of an extra stage at lengths up to L′, as a share of the recipe's; None without one."""


class CostAt(Record):
    """A training step at one length. See ``bench.card.Cost``."""

    length: int
    step_ms: float
    step_ratio: float
    peak_mb: float
    peak_ratio: float


class Measured(Record):
    """What ``bench.card`` measures, and where that was."""

    properties: dict[str, bool]
    costs: list[CostAt]
    """By length, ascending: L, 2 L and 4 L."""
    suite: str
    """Whose model, and on which of its tasks, the costs are."""
    task: str
    source_sha256: str
    """Of the encoding then."""
    versions: dict[str, str]
    device: str
    threads: int
    commit: str | None
    cpu_share: float
    """CPU seconds of the process by wall seconds; under ``QUIET`` the machine was busy with something else."""
    finished: str
    """ISO 8601, UTC."""

    @property
    def busy(self) -> bool:
        return self.cpu_share < QUIET


class Card(Record):
    """One encoding. A part that is not known is None, and not shown."""

    declared: Declared | None = None
    measured: Measured | None = None


def read_cards(folder: Path) -> dict[str, Card]:
    """Encoding → card, of a leaderboard's store; empty where there is none.

    Raises:
        InputError: a broken file.
    """
    path = folder / RESULTS / CARDS
    if not path.exists():
        return {}
    try:
        return {name: Card.model_validate(card) for name, card in sorted(json.loads(read(path)).items())}
    except (ValueError, AttributeError) as error:  # pydantic's ValidationError is a ValueError
        fault = first_fault(error) if isinstance(error, ValidationError) else "not JSON"
        raise InputError(
            f"{path} does not hold cards ({fault}); take it back from git, or delete it and publish again"
        ) from error


def write_cards(folder: Path, cards: Mapping[str, Card]) -> None:
    """One line an encoding, by name.

    Raises:
        InputError: it cannot be written.
    """
    rows = [f"{json.dumps(name, ensure_ascii=False)}: {cards[name].model_dump_json()}" for name in sorted(cards)]
    write_changed(folder / RESULTS / CARDS, "{\n" + ",\n".join(rows) + "\n}\n" if rows else None)


def priced(found: Mapping[str, Iterable[Grid]], cards: Mapping[str, Card]) -> dict[str, list[Grid]]:
    """Suites' grids that know what their encodings cost, as far as cards do."""
    prices = {}
    for name, card in cards.items():
        if card.measured and (costs := card.measured.costs):
            prices[name] = Price(costs[0].step_ratio, costs[-1].step_ratio, costs[-1].peak_ratio, card.measured.busy)
    return {suite: [replace(grid, prices=prices) for grid in versions] for suite, versions in found.items()}


def measure_cards(names: Iterable[str], known: Mapping[str, Card] | None = None, measure: bool = True) -> dict[str, Card]:
    """Cards of encodings, by name: seconds each, for those that have none or whose source has changed since.

    Arguments:
        known: cards there are. One of an encoding that the code no longer has stays as it is.
        measure: False to go by what is declared alone, and keep what was measured.
    """
    from bench import encodings
    from bench.references import has_reference

    cards = dict(known or {})
    for name in sorted(set(names)):
        if has_reference(name):
            continue  # no result's name may make code run that lies around
        try:
            cls = encodings.get(name)
        except InputError:
            continue
        card = cards.get(name, Card())
        if measure and (card.measured is None or card.measured.source_sha256 != encodings.source_hash(cls)):
            card = card.model_copy(update={"measured": measured(cls)})
        cards[name] = card.model_copy(update={"declared": declared(cls)})
    return cards


def with_catalogue(cards: Mapping[str, Card], published: Iterable[str]) -> dict[str, Card]:
    """With what all built-in encodings declare, so that the board can name those that have no run; no card of any other that
    has none.

    Arguments:
        published: encodings that have results.
    """
    from bench import encodings

    built_in = set(encodings.catalogue())
    kept = {name: card for name, card in cards.items() if name in {*published} | built_in}
    return measure_cards(built_in, kept, measure=False)


def declared(cls) -> Declared:
    from bench import encodings

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
    )


def measured(cls) -> Measured:
    """Measure one encoding, here and now, on one thread of the CPU."""
    import time
    from dataclasses import asdict

    import torch

    from bench import encodings
    from bench.card import COST_SUITE, COST_TASK, costs, properties
    from bench.commit import commit
    from bench.runs import now
    from bench.work import device_name, versions

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        cpu, wall = time.process_time(), time.perf_counter()
        found = [CostAt(**{k: round(v, 3) for k, v in asdict(cost).items()}) for cost in costs(cls, rounds=ROUNDS)]
        cpu_share = (time.process_time() - cpu) / (time.perf_counter() - wall)
        return Measured(
            properties=asdict(properties(cls)),
            costs=found,
            suite=COST_SUITE,
            task=COST_TASK,
            source_sha256=encodings.source_hash(cls),
            versions=versions(),
            device=device_name(torch.device("cpu")),
            threads=1,
            commit=commit(),
            cpu_share=round(cpu_share, 3),
            finished=now(),
        )
    finally:
        torch.set_num_threads(threads)
