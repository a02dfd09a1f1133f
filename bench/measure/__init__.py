"""The measured cost of an encoding's training steps, and the card that stores it.

``measure.py`` makes cards when results are published. Reading one needs neither torch nor the encoding's source.
"""

from bench.result import Record

COST_MULTIPLES = (1, 2, 4)
"""Lengths at which costs are measured, as multiples of L."""


class CostAt(Record):
    """Cost of a training step at one length, absolute and relative to NoPE. See ``bench.measure.measure``."""

    length: int
    """Tokens."""
    step_ms: float
    step_ratio: float
    peak_mb: float
    """Largest total size of the step's tensors, in MiB."""
    peak_ratio: float


class Card(Record):
    """Measured costs, and the conditions of the measurement."""

    costs: list[CostAt]
    """Costs at ``COST_MULTIPLES`` of L, in this order."""
    flops_ratio: float
    """Operations of a forward pass at L relative to NoPE: see ``bench.training.model.count_flops``."""
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
