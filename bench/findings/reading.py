"""The numbers that findings read from runs: scores of results (``Measure``), or values of probes (``Reading``)."""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Annotated, Literal

from pydantic import Field

from bench.probe.record import ProbeRecord
from bench.result import LengthScore, Result
from bench.suites.yaml_config import Section
from tasks import InputError


class Span(Section):
    """Test lengths l with past·L < l ≤ to·L."""

    past: Annotated[float, Field(ge=0)]
    to: Annotated[float, Field(gt=0)]
    further: str = ""
    """A further test set of the task, such as ``other`` of text; empty: the test set itself."""


class Measure(Span):
    """The number that is read from the results of one seed: the mean over tasks and test lengths, guessing taken out."""

    score: Literal["exact", "token", "bits"]
    """Bits are per answer token; more of them are worse."""
    minus: Span | None = None
    """Test lengths whose mean is subtracted."""
    learned: Annotated[float, Field(ge=0, le=1)] = 0
    """Seeds with a lower mean exact match at l ≤ L are left out: the authors' selection rule."""
    solved: Annotated[float, Field(ge=0)] = 0
    """If given, the number is 1 from this number on and 0 below it, and tests are exact ones."""

    def reads(self, record: Result | ProbeRecord, encoding: str) -> bool:
        """Whether it is a result of an encoding."""
        return isinstance(record, Result) and record.encoding.name == encoding

    def of(self, results: Sequence[Result]) -> float | None:
        """The number of one seed, from its results, one a task; None if the seed is left out."""
        within = (s.exact for run in results for s in run.scores if s.length <= run.train_length)
        if fmean(within) < self.learned:
            return None
        number = fmean(self.at(run, self) - (self.at(run, self.minus) if self.minus else 0) for run in results)
        return float(number >= self.solved) if self.solved else number

    def at(self, run: Result, span: Span) -> float:
        """The mean of one run over test lengths."""
        tested = run.further.get(span.further, []) if span.further else run.scores
        at = [s for s in tested if span.past < s.length / run.train_length <= span.to]
        if not at:
            raise InputError(f"{run.path}: no test length l with {span.past:g} < l/L ≤ {span.to:g} {span.further}")
        return fmean(self.number(run, s) for s in at)

    def number(self, run: Result, s: LengthScore) -> float:
        """Of one test length. An accuracy is 0 for a guess that knows only the length; a diverged run knows no symbol."""
        if self.score == "bits":
            return (math.log(run.symbols) if s.nll is None else s.nll) / math.log(2)
        right, chance = (s.exact, s.chance) if self.score == "exact" else (s.token, s.token_chance or 0)
        return (right - chance) / (1 - chance)


class Quantity(Section):
    """Part of a probe's record; the mean over everything that is not chosen."""

    quantity: str
    length: Literal["train", "longest"] | None = None
    """At L, or at the longest length of the record."""
    layers: list[int] = []
    """Empty: all."""
    at: str = ""
    """``Value.at``; ``{seed}`` is that of the run."""

    def value(self, record: ProbeRecord) -> float | None:
        """The number of one record; None if it has no such value."""
        found = [v for v in record.values if v.quantity == self.quantity and v.value is not None]
        found = [v for v in found if not self.layers or v.layer in self.layers]
        found = [v for v in found if not self.at or v.at == self.at.format(seed=record.seed)]
        if self.length and found:
            length = record.train_length if self.length == "train" else max(v.length or 0 for v in found)
            found = [v for v in found if v.length == length]
        return fmean(v.value for v in found if v.value is not None) if found else None


class Reading(Quantity):
    """The number that is read from a probe of each run: the mean over tasks of a quantity, less or over another one."""

    probe: Literal["position", "growth", "similarity"]
    less: Quantity | None = None
    over: Quantity | None = None

    def reads(self, record: Result | ProbeRecord, encoding: str) -> bool:
        """Whether it is a record of an encoding and of this probe."""
        return isinstance(record, ProbeRecord) and (record.encoding, record.probe) == (encoding, self.probe)

    def of(self, records: Sequence[ProbeRecord]) -> float | None:
        """The number of one seed, from its records, one a task; None if a task has none."""
        values = [value for record in records if (value := self.of_run(record)) is not None]
        return fmean(values) if len(values) == len(records) else None

    def of_run(self, record: ProbeRecord) -> float | None:
        """The number of one run."""
        own = self.value(record)
        less = self.less.value(record) if self.less else 0.0
        over = self.over.value(record) if self.over else 1.0
        return None if own is None or less is None or not over else (own - less) / over
