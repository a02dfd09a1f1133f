"""Content of ``runs/speed.json``: all measurements and their conditions. The page is rendered from it alone."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from bench.result import Record

from .plan import SECTIONS


class Spread(Record):
    """Repeated measurements: median and quartiles."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float], scale: float = 1.0) -> "Spread":
        low, median, high = np.quantile(values, [0.25, 0.5, 0.75]) * scale
        return cls(median=float(median), low=float(low), high=float(high), count=len(values))


class Step(Record):
    """Step times of one contestant on one task."""

    suite: str
    task: str
    encoding: str
    who: str
    """``lprime``, or the library's model."""
    examples: int
    """Per step."""
    parameters: int
    ms: Spread


class Evaluation(Record):
    """Exact match on one test set and the time it takes."""

    task: str
    length: int
    encoding: str
    who: str
    examples: int
    ms: Spread
    """For the whole test set."""


class Memory(Record):
    """Peak memory of one process."""

    what: Literal["imports", "training", "long training", "evaluation"]
    detail: str
    mb: float
    """MiB."""


class Growth(Record):
    """Cost of an encoding: relative to NoPE's, and by number of tokens, on batches of equally long examples."""

    encoding: str
    biases: bool
    """Whether it has the hook ``bias``."""
    step: float
    """Time of a training step at length L relative to NoPE's, as ``bench.measure.cost`` measures it."""
    evaluation: float
    """Time of the evaluation of copying at L′, relative to NoPE's."""
    examples: int
    tokens: list[int]
    """Tokens of sequences of length L, 2L, 5L and 10L."""
    ms: list[Spread]
    exponent: float
    """x in time ∝ T^x between 5L and 10L."""
    flops_exponent: float
    """The same for the step's FLOPs."""


class Part(Record):
    """Time of the evaluation of copying at L′ with one addition to NoPE's attention, relative to NoPE's."""

    what: str
    evaluation: float


class Overhead(Record):
    """A real ``lprime run`` of a part of ``quick``, with one worker."""

    runs: int
    """Number of runs, without the first."""
    wall_s: float
    """Time from the first result to the last."""
    train_s: float
    """Sum over those runs, like ``evaluate_s``."""
    evaluate_s: float
    to_first_run_s: float
    """From the command to the start of the first run."""
    first_run_rest_s: float
    """Time of the first run outside training and evaluation, most of it before its first step."""
    imports_s: float
    """Starting two interpreters and importing, for the command and for the worker."""
    first_step_s: float
    """From the start of a run to the end of its first step, with everything imported."""

    @property
    def share(self) -> float:
        """Share of the wall time that is neither training nor evaluation."""
        return 1 - (self.train_s + self.evaluate_s) / self.wall_s

    @property
    def start_s(self) -> float:
        """From the command to the first step of the first run, without the imports."""
        return self.to_first_run_s + self.first_run_rest_s - self.imports_s


class Profile(Record):
    """Time of a whole run by phase."""

    suite: str
    task: str
    encoding: str
    steps: int
    seconds: dict[str, float]


class Speed(Record):
    """Results of one run of ``make speed``."""

    format: Literal[5] = 5
    quick: bool
    """A smoke run: its numbers mean nothing."""
    date: str
    took_s: float
    cpu_share: float
    """CPU time over wall time of the sections that run in this process; below 1, other processes kept the machine busy."""
    device: str
    cores: int
    threads: int
    versions: dict[str, str]
    steps: list[Step] = []
    evaluation: list[Evaluation] = []
    memory: list[Memory] = []
    growth: list[Growth] = []
    parts: list[Part] = []
    profile: list[Profile] = []
    overhead: Overhead | None = None

    @property
    def partial(self) -> bool:
        """Whether these are numbers of a smoke run, or of some sections only."""
        return self.quick or not all(getattr(self, section) for section in SECTIONS)
