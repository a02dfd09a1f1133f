"""The numbers that findings read from runs: scores of results (``Measure``), or values of probes (``Reading``)."""

from collections.abc import Sequence
from statistics import fmean
from typing import Annotated, Literal

from pydantic import Field

from bench.probe.record import ProbeRecord
from bench.result import Result
from bench.suites.yaml_config import Section
from tasks import InputError


class Measure(Section):
    """The number that is read from each run: the mean over tasks and over its test lengths l, past·L < l ≤ to·L."""

    score: Literal["exact", "token"]
    past: Annotated[float, Field(ge=0)]
    to: Annotated[float, Field(gt=0)]
    tasks: list[str] = []
    """Tasks of the suite; empty: all."""

    def reads(self, result: Result, encoding: str) -> bool:
        """Whether a result is of an encoding."""
        return result.encoding.name == encoding

    def of(self, results: Sequence[Result]) -> float:
        """The number of one seed, from its results, one a task."""
        return fmean(map(self.of_run, results))

    def of_run(self, run: Result) -> float:
        """The number of one run."""
        at = [s for s in run.scores if self.past < s.length / run.train_length <= self.to]
        if not at:
            raise InputError(f"{run.path}: no test length l with {self.past:g} < l/L ≤ {self.to:g}")
        return fmean(s.exact if self.score == "exact" else s.token for s in at)


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

    probe: Literal["position", "growth", "similarity", "context", "needle", "excess"]
    less: Quantity | None = None
    over: Quantity | None = None

    def reads(self, record: ProbeRecord, encoding: str) -> bool:
        """Whether a record is of an encoding and of this probe."""
        return (record.encoding, record.probe) == (encoding, self.probe)

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
