"""What ``runs/speed.json`` holds: everything measured, and what it was measured with. The page is made from it alone."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from bench.results import Record
from tasks import InputError

PUBLISHED = ("text", "tokenizer")
"""Ways of ``plain`` that are modelled on published harnesses, and end in tensors."""


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
    """Training steps of one contestant on one task."""

    suite: str
    task: str
    encoding: str
    """The encoding of ours that it stands beside."""
    who: str
    """``lprime``, or the library's model."""
    parameters: int
    ms: Spread


class Bound(Record):
    """The machine's own limit on one task's training step."""

    suite: str
    task: str
    examples: int
    """A step."""
    tokens: float
    """A step, without padding; mean."""
    padded_tokens: float
    """With it, in one rectangle."""
    gflop: float
    """A step of the unpadded model: all layers, all tokens, the head where the answer is."""
    gflop_needed: float
    """The same less what follows attention in the last layer at tokens that predict nothing that counts."""
    gflops: float
    """Best rate of the linear maps' matrix products, GFLOP/s."""
    best: str
    """The product that reached it."""
    gflops_mixed: float
    """Rate of all those products, each at its own."""
    rates: dict[str, float]
    shares: dict[str, float]
    """Encoding → least time at ``gflops`` over our step's time; median over steps."""


class Loop(Record):
    """Our whole training loop, data and bookkeeping included, without contestants in between."""

    suite: str
    task: str
    encoding: str
    ms: Spread


class Evaluation(Record):
    """Exact match of one test set."""

    task: str
    length: int
    encoding: str
    who: str
    batch: int | None = None
    """Examples at a time that are generated; None: all."""
    examples: int
    ms: Spread
    """The whole test set."""


class Generators(Record):
    """Drawing examples."""

    task: str
    what: Literal["training", "test"]
    length: int
    """L, or L′."""
    ours_us: Spread
    """An example, as arrays."""
    ours_tensors_us: Spread
    """As tensors of tokens and labels."""
    theirs_us: dict[str, Spread]
    """Way of ``plain.WAYS`` → an example."""

    def ratio(self, way: str) -> float:
        """How many times as fast ours is with what that way ends in."""
        ours = self.ours_tensors_us if way in PUBLISHED else self.ours_us
        return self.theirs_us[way].median / ours.median

    step_share: float | None
    """Of a NoPE training step, for drawing its examples and laying them out as tensors."""


class Memory(Record):
    """Most memory that one process ever held."""

    what: Literal["imports", "training", "evaluation"]
    detail: str
    mb: float
    """MiB."""


class Growth(Record):
    """Training step by number of tokens; all examples of one size."""

    encoding: str
    examples: int
    tokens: list[int]
    """Of lengths L, 2L, 5L and 10L."""
    ms: list[Spread]
    exponent: float
    """x in time ∝ T^x between 5L and 10L."""
    flops_exponent: float
    """The same of the model's FLOPs."""


class Overhead(Record):
    """A real ``lprime run`` of a part of ``quick``, with one worker."""

    runs: int
    """After the first, in which the worker may still import."""
    wall_s: float
    """From the first result to the last."""
    train_s: float
    """Of those runs, as ``evaluate_s``."""
    evaluate_s: float
    to_first_run_s: float
    """From the command to the start of the first run."""
    first_run_rest_s: float
    """What the first run did beside training and evaluation, most of it before its first step."""
    imports_s: float
    """Starting two interpreters and importing: the command's, and the worker's with what torch imports at the first use."""
    first_step_s: float
    """From the start of a run to the end of its first step, where everything is imported."""

    @property
    def share(self) -> float:
        """Of the wall time, what is neither training nor evaluation."""
        return 1 - (self.train_s + self.evaluate_s) / self.wall_s

    @property
    def start_s(self) -> float:
        """From the command to the first step and the saving of the first run, without the imports."""
        return self.to_first_run_s + self.first_run_rest_s - self.imports_s


class Profile(Record):
    """A whole run, by phase."""

    suite: str
    task: str
    encoding: str
    steps: int
    seconds: dict[str, float]


class Packed(Record):
    """Runs that share a GPU."""

    at_once: int
    step_ms: float
    """Mean over runs of the median step."""
    evaluate_s: float
    runs_per_hour: float
    """Of the whole recipe, evaluation included."""


class Gpu(Record):
    """One GPU."""

    suite: str
    runs: int
    """Of the whole suite."""
    device: str
    steps: list[Step]
    packed: list[Packed]

    @property
    def best(self) -> Packed:
        return max(self.packed, key=lambda packed: packed.runs_per_hour)

    @property
    def suite_h(self) -> float:
        """Hours of the whole suite, packed as is best."""
        return self.runs / self.best.runs_per_hour


class Speed(Record):
    """One run of ``make speed``."""

    format: Literal[1] = 1
    quick: bool
    """A smoke run: its numbers mean nothing."""
    date: str
    took_s: float
    cpu_share: float
    """CPU time over wall time of what ran in this process: under 1 the machine was busy with something else."""
    device: str
    cores: int
    threads: int
    versions: dict[str, str]
    renewed: dict[str, str] = {}
    """Section that was measured again by itself → when."""
    steps: list[Step] = []
    bounds: list[Bound] = []
    loops: list[Loop] = []
    evaluation: list[Evaluation] = []
    generators: list[Generators] = []
    memory: list[Memory] = []
    growth: list[Growth] = []
    profile: list[Profile] = []
    overhead: Overhead | None = None
    gpu: Gpu | None = None

    def renew(self, sections: Sequence[str], found: "Speed") -> "Speed":
        """This with some sections of another run.

        Raises:
            InputError: the two were made on different devices or with different versions.
        """
        for what in ("quick", "device", "cores", "threads", "versions"):
            ours, theirs = getattr(self, what), getattr(found, what)
            if ours != theirs:
                raise InputError(f"sections cannot be measured again: {what} was {ours}, and is {theirs}; run it all")
        parts = ["steps", "bounds", "loops"] if "steps" in sections else []
        parts += [section for section in sections if section != "steps"]
        dates = self.renewed | {section: found.date for section in sections}
        return self.model_copy(update={part: getattr(found, part) for part in parts} | {"renewed": dates})
