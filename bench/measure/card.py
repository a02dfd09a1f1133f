"""Format of an encoding's card: its declaration and its measured cost.

``measure.py`` creates cards when results are published. Reading one needs neither torch nor the encoding's source.
"""

from bench.result import Record

COST_MULTIPLES = (1, 2, 4)
"""Lengths at which costs are measured, as multiples of L."""


class Declared(Record):
    """Declarations that results do not contain. See ``bench.encodings.Info``."""

    authors: str
    formula: str
    past: str
    provenance: str
    hooks: list[str]
    shift_invariant: bool
    random: bool
    stage_share: float | None = None
    """Steps of the extra training stage as a share of the recipe's steps; None without one."""
    source: str
    """See ``bench.result.SourceKind``."""
    lengths: str


class CostAt(Record):
    """Cost of a training step at one length, absolute and relative to NoPE. See ``bench.measure.measure``."""

    length: int
    """Tokens."""
    step_ms: float
    step_ratio: float
    peak_mb: float
    """Largest total size of the step's tensors, in MiB."""
    peak_ratio: float


class Measured(Record):
    """Measured costs, and the conditions of the measurement."""

    properties: dict[str, bool] = {}
    """Of an older version, which measured more than costs."""
    costs: list[CostAt]
    """Costs at ``COST_MULTIPLES`` of L, in this order."""
    suite: str
    """Suite and task of the cost measurements."""
    task: str
    source_sha256: str
    """Source hash of the encoding when it was measured."""
    versions: dict[str, str]
    device: str
    threads: int
    commit: str | None
    cpu_share: float
    """CPU seconds of the process per wall-clock second; far below 1, the machine was busy with other work."""
    finished: str
    """ISO 8601, UTC."""


class Card(Record):
    """The card of one encoding. An unknown part is None and is not displayed."""

    declared: Declared | None = None
    measured: Measured | None = None
    attention: list[list[float]] | None = None
    """Attention by distance before training, a list for each head. See ``measure.attention_by_distance``."""
