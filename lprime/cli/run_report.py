"""What ``lprime run`` reports at its end: the runs that need attention, as text and as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.result import Result
from bench.runs.progress import Progress
from bench.runs.run import Run, read_results

MOST_SHOWN = 10
"""Maximum number of runs that are listed under a heading."""


@dataclass
class Outcome:
    """The outcome of a grid.

    Arguments:
        skipped: earlier failures that are not repeated, with their reasons.
        finished: runs that were done before.
        unreadable: runs whose result cannot be used, and why.
        tally: how the others ended; None if they were not executed, or not watched.
        preview: what would run, with ``--dry-run``.
    """

    suite: str
    out: Path
    runs: Sequence[Run]
    todo: Sequence[Run]
    skipped: Mapping[Run, str]
    finished: Mapping[Run, Result]
    unreadable: Mapping[Run, str]
    tally: Progress | None = None
    preview: Sequence[str] = ()

    @property
    def failed(self) -> dict[Run, str]:
        return {event.run: event.text for event in self.tally.failed} if self.tally else {}

    @property
    def lost(self) -> dict[Run, str]:
        return {event.run: event.text for event in self.tally.lost} if self.tally else {}

    @property
    def locked(self) -> int:
        return self.tally.locked if self.tally else 0

    def done(self) -> dict[Run, Result]:
        """Results of all finished runs; results of lost runs cannot be read."""
        lost = self.lost
        return dict(self.finished) | read_results([r for r in self.todo if self.tally and r not in lost], self.out)[0]

    @property
    def code(self) -> int:
        """Exit code. A diverged run is a result."""
        skipped = self.skipped and not self.preview
        return int(bool(skipped or self.failed or self.lost or self.unreadable or self.locked))

    def attention(self) -> Iterator[str]:
        """What the user should know, as lines of text."""
        count = f"of {len(self.todo)} runs"
        yield from self.preview
        yield from (f"not used: {reason}" for reason in self.unreadable.values())
        yield from section("failed before; --retry-failed runs them again", self.skipped)
        if self.locked:
            yield f"{self.locked} {count} are in progress in another process"
        yield from section(f"{count} failed, see failure.json in their folders; --retry-failed runs them again", self.failed)
        yield from section(f"{count} lost their jobs; re-run to resume them", self.lost)
        diverged = {r: f"at step {one.steps} of {r.steps}" for r, one in self.done().items() if one.status == "diverged"}
        yield from section(f"of {len(self.runs)} runs diverged (NaN or infinite loss) and count as zero", diverged)

    def as_dict(self) -> dict[str, Any]:
        """The outcome as plain data."""

        def listed(runs: Mapping[Run, Any], key: str) -> list[dict[str, Any]]:
            names = ("task", "encoding", "seed", "learning_rate")
            return [dict(zip(names, run.key, strict=True)) | {key: value} for run, value in runs.items()]

        done = self.done()
        return {
            "suite": self.suite,
            "out": str(self.out),
            "runs": len(self.runs),
            "done": len(done),
            "failed": listed({**self.skipped, **self.failed}, "reason"),
            "lost": listed(self.lost, "reason"),
            "diverged": listed({r: one.steps for r, one in done.items() if one.status == "diverged"}, "step"),
            "unreadable": listed(self.unreadable, "reason"),
            "preview": list(self.preview),
            "in_another_process": self.locked,
        }


def section(title: str, runs: Mapping[Run, str]) -> Iterator[str]:
    """Runs under a heading that counts them; nothing if there are none."""
    if runs:
        yield f"{len(runs)} {title}:"
        yield from (f"  {run}: {text}" for run, text in list(runs.items())[:MOST_SHOWN])
    if len(runs) > MOST_SHOWN:
        yield f"  … and {len(runs) - MOST_SHOWN} more"
