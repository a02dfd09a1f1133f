"""What ``lprime run`` reports at its end: the runs that need attention, as text and as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from bench.runs.progress import Event, Progress
from bench.runs.run import Ended, Run, read_results

MOST_SHOWN = 10
"""Maximum number of runs that are listed under a heading."""


@dataclass
class Outcome:
    """The outcome of a grid.

    Arguments:
        skipped: earlier failures that are not repeated, with their reasons.
        finished: runs that were done before.
        unreadable: runs whose result cannot be used, and why.
        tally: how the others ended; of no runs if they were not executed, or not watched.
        preview: what would run, with ``--dry-run``.
    """

    suite: str
    out: Path
    runs: Sequence[Run]
    todo: Sequence[Run]
    skipped: Mapping[Run, str]
    finished: Mapping[Run, Ended]
    unreadable: Mapping[Run, str]
    tally: Progress = field(default_factory=lambda: Progress([]))
    preview: Sequence[str] = ()

    @cached_property
    def done(self) -> dict[Run, Ended]:
        """How all finished runs ended; results of lost runs cannot be read."""
        lost = reasons(self.tally.lost)
        return dict(self.finished) | read_results([r for r in self.todo if self.tally.total and r not in lost], self.out)[0]

    @cached_property
    def diverged(self) -> dict[Run, int]:
        """The step at which each diverged run did so."""
        return {run: result.steps for run, result in self.done.items() if result.status == "diverged"}

    @property
    def code(self) -> int:
        """Exit code. A diverged run is a result."""
        skipped = self.skipped and not self.preview
        return int(bool(skipped or self.tally.failed or self.tally.lost or self.unreadable or self.tally.locked))

    def attention(self) -> Iterator[str]:
        """What the user should know, as lines of text."""
        count = f"of {len(self.todo)} runs"
        yield from self.preview
        yield from (f"not used: {reason}" for reason in self.unreadable.values())
        yield from section("failed before; --retry-failed runs them again", self.skipped)
        if self.tally.locked:
            yield f"{self.tally.locked} {count} are in progress in another process"
        failed = f"{count} failed, see failure.json in their folders; --retry-failed runs them again"
        yield from section(failed, reasons(self.tally.failed))
        yield from section(f"{count} lost their jobs; re-run to resume them", reasons(self.tally.lost))
        diverged = {run: f"at step {step} of {run.steps}" for run, step in self.diverged.items()}
        yield from section(f"of {len(self.runs)} runs diverged (NaN or infinite loss) and count as zero", diverged)

    def as_dict(self) -> dict[str, Any]:
        """The outcome as plain data."""

        def listed(runs: Mapping[Run, Any], key: str) -> list[dict[str, Any]]:
            names = ("task", "encoding", "seed", "learning_rate")
            return [dict(zip(names, run.key, strict=True)) | {key: value} for run, value in runs.items()]

        return {
            "suite": self.suite,
            "out": str(self.out),
            "runs": len(self.runs),
            "done": len(self.done),
            "failed": listed({**self.skipped, **reasons(self.tally.failed)}, "reason"),
            "lost": listed(reasons(self.tally.lost), "reason"),
            "diverged": listed(self.diverged, "step"),
            "unreadable": listed(self.unreadable, "reason"),
            "preview": list(self.preview),
            "in_another_process": self.tally.locked,
        }


def reasons(events: Sequence[Event]) -> dict[Run, str]:
    return {event.run: event.text for event in events}


def section(title: str, runs: Mapping[Run, str]) -> Iterator[str]:
    """Runs under a heading that counts them; nothing if there are none."""
    if runs:
        yield f"{len(runs)} {title}:"
        yield from (f"  {run}: {text}" for run, text in list(runs.items())[:MOST_SHOWN])
    if len(runs) > MOST_SHOWN:
        yield f"  … and {len(runs) - MOST_SHOWN} more"
