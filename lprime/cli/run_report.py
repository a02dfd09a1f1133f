"""What ``lprime run`` reports at its end: the runs that need attention, as text and as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.runs.progress import Progress, section
from bench.runs.run import FINISHED, Run, Standing, State


@dataclass
class Outcome:
    """The outcome of a grid.

    Arguments:
        standings: all runs, as they stand; lost ones as they stood before, since their results cannot be read.
        todo: the runs to execute.
        tally: how those ended; of no runs if they were not executed, or not watched.
        preview: what would run, with ``--dry-run``.
    """

    suite: str
    out: Path
    standings: dict[Run, Standing]
    todo: Sequence[Run]
    tally: Progress = field(default_factory=lambda: Progress([]))
    preview: Sequence[str] = ()

    @property
    def done(self) -> dict[Run, Standing]:
        """Finished runs."""
        return {run: standing for run, standing in self.standings.items() if standing.state in FINISHED}

    @property
    def diverged(self) -> dict[Run, int]:
        """The step at which each diverged run did so."""
        return {run: standing.steps for run, standing in self.done.items() if standing.state == "diverged"}

    def left_out(self, state: State) -> dict[Run, str]:
        """Runs that are not executed because of their state, with the reasons of that."""
        todo = set(self.todo)
        return {run: found.reason for run, found in self.standings.items() if found.state == state and run not in todo}

    @property
    def code(self) -> int:
        """Exit code. A diverged run is a result."""
        skipped = self.left_out("failed") and not self.preview
        tally = self.tally
        return int(bool(skipped or tally.failed or tally.lost or self.left_out("unreadable") or tally.locked))

    def attention(self) -> Iterator[str]:
        """What the user should know, as lines of text."""
        count = f"of {len(self.todo)} runs"
        yield from self.preview
        yield from (f"not used: {reason}" for reason in self.left_out("unreadable").values())
        yield from section("failed before; --retry-failed runs them again", self.left_out("failed"))
        if self.tally.locked:
            yield f"{self.tally.locked} {count} are in progress in another process"
        failed = f"{count} failed, see failure.json in their folders; --retry-failed runs them again"
        yield from section(failed, self.tally.failed)
        yield from section(f"{count} lost their jobs; re-run to resume them", self.tally.lost)
        diverged = {run: f"at step {step} of {run.steps}" for run, step in self.diverged.items()}
        yield from section(f"of {len(self.standings)} runs diverged (NaN or infinite loss) and count as zero", diverged)

    def as_dict(self) -> dict[str, Any]:
        """The outcome as plain data."""

        def listed(runs: Mapping[Run, Any], key: str) -> list[dict[str, Any]]:
            names = ("task", "encoding", "seed", "learning_rate")
            return [dict(zip(names, run.key, strict=True)) | {key: value} for run, value in runs.items()]

        return {
            "suite": self.suite,
            "out": str(self.out),
            "runs": len(self.standings),
            "done": len(self.done),
            "failed": listed(self.left_out("failed") | self.tally.failed, "reason"),
            "lost": listed(self.tally.lost, "reason"),
            "diverged": listed(self.diverged, "step"),
            "unreadable": listed(self.left_out("unreadable"), "reason"),
            "preview": list(self.preview),
            "in_another_process": self.tally.locked,
        }
