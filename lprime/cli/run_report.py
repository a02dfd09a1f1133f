"""What ``lprime run`` reports at its end: the runs that need attention, as text and as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.result import Result
from bench.runs.progress import Tally
from bench.runs.run import FAILURE, Run, read_results
from bench.suites.suite import suite_command

MOST_SHOWN = 10
"""Maximum number of diverged runs that are listed."""


@dataclass
class Outcome:
    """The outcome of a grid.

    Arguments:
        skipped: earlier failures that are not repeated, with their reasons.
        finished: runs that were done before.
    """

    suite: str
    out: Path
    runs: Sequence[Run]
    todo: Sequence[Run]
    skipped: Mapping[Run, str]
    finished: Mapping[Run, Result]
    unreadable: Mapping[Run, str]
    """Runs whose result cannot be used, and why."""
    tally: Tally | None = None
    detached: bool = False
    """Whether the command ends while the runs are in the queue of a cluster."""
    preview: Sequence[str] = ()
    """What would run, with ``--dry-run``."""

    def command(self, name: str) -> str:
        """The command ``name`` for these runs."""
        return suite_command(name, self.suite, out=self.out)

    @property
    def failed(self) -> dict[Run, str]:
        return {event.run: event.text for event in self.tally.failed} if self.tally else {}

    @property
    def lost(self) -> dict[Run, str]:
        return {event.run: event.text for event in self.tally.lost} if self.tally else {}

    @property
    def diverged(self) -> dict[Run, int]:
        """Runs whose loss was not finite, and the step of that."""
        lost = self.lost  # results that cannot be read are among them
        todo = [run for run in self.todo if self.tally and run not in lost]
        ended = dict(self.finished) | read_results(todo, self.out)[0]
        return {run: result.steps for run, result in ended.items() if result.status == "diverged"}

    @property
    def code(self) -> int:
        """Exit code. A diverged run is a result."""
        locked = self.tally and self.tally.locked
        skipped = self.skipped and not self.preview
        return int(bool(self.failed or self.lost or self.unreadable or locked or skipped))

    def attention(self) -> Iterator[str]:
        """Lines that are printed even with ``--quiet``."""
        count = len(self.todo)
        yield from self.preview
        yield from (f"not used: {reason}" for reason in self.unreadable.values())
        if self.detached:
            yield f"all jobs are queued; follow them with: {self.command('status')}"
        if self.skipped:
            yield f"{len(self.skipped)} failed before; --retry-failed runs them again:"
            yield from (f"  {run}: {reason}" for run, reason in self.skipped.items())
        if self.tally and self.tally.locked:
            yield f"{self.tally.locked} of {count} runs are in progress in another process"
        failed = self.failed
        reports = {run: report for run in failed if (report := run.folder(self.out) / FAILURE).exists()}
        if reports:
            yield f"{len(reports)} of {count} runs failed; --retry-failed runs them again:"
            yield from (f"  {run}: {failed[run]}" for run in reports)
            yield f"  the first one's report: {next(iter(reports.values()))}"
        if unsaved := [run for run in failed if run not in reports]:
            yield f"{len(unsaved)} of {count} runs could not be saved; re-run to resume them:"
            yield from (f"  {run}: {failed[run]}" for run in unsaved)
        if self.lost:
            yield f"{len(self.lost)} of {count} runs lost their jobs; re-run to resume them:"
            yield from (f"  {run}: {reason}" for run, reason in self.lost.items())
        if diverged := self.diverged:
            yield f"caution: {len(diverged)} of {len(self.runs)} runs diverged (NaN or infinite loss) and count as zero:"
            yield from (f"  {run}: at step {step} of {run.steps}" for run, step in list(diverged.items())[:MOST_SHOWN])
            if len(diverged) > MOST_SHOWN:
                yield f"  … and {len(diverged) - MOST_SHOWN} more"

    def as_dict(self) -> dict[str, Any]:
        """The outcome as plain data."""

        def listed(runs: Mapping[Run, Any], key: str) -> list[dict[str, Any]]:
            return [
                {"suite": r.suite.name, **dict(zip(("task", "encoding", "seed", "learning_rate"), r.key, strict=True)), key: v}
                for r, v in runs.items()
            ]

        lost = self.lost
        return {
            "suite": self.suite,
            "out": str(self.out),
            "runs": len(self.runs),
            "done": len(read_results([run for run in self.runs if run not in lost], self.out)[0]),
            "failed": listed({**self.skipped, **self.failed}, "reason"),
            "lost": listed(lost, "reason"),
            "diverged": listed(self.diverged, "step"),
            "unreadable": listed(self.unreadable, "reason"),
            "preview": list(self.preview),
            "in_another_process": self.tally.locked if self.tally else 0,
        }
