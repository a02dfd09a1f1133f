"""Settings of ``standard``'s tasks to try, the preferred first: the longest L, then the fewest steps."""

from dataclasses import dataclass

from bench.suites.suite import TaskSpec

PAST = 16
"""Test lengths past L that are tried."""


@dataclass(frozen=True)
class Candidates:
    """Settings of one task to try."""

    task: str
    variant: str
    train_lengths: tuple[int, ...]
    steps: tuple[int, ...]
    past: float
    """Multiple of L to which it is tested; L′ is that or less."""

    def specs(self) -> list[TaskSpec]:
        """The candidates, the preferred first. Test lengths past L are evenly spaced in log l."""
        past = [round(self.past ** (n / PAST), 3) for n in range(1, PAST + 1)]
        return [
            TaskSpec(
                task=self.task,
                variant=self.variant,
                train_length=length,
                test_at=[0.25, 0.5, 0.75, 1, *past],
                recipe={"steps": steps},
            )
            for length in self.train_lengths
            for steps in self.steps
        ]


STANDARD = (
    Candidates("copying", "unique", (32, 24), (800, 1600), past=4),
    Candidates("addition", "reversed", (12, 8), (1500, 3000), past=4),
    Candidates("parity", "sparse", (40, 30), (600, 1200), past=16),
    Candidates("key_retrieval", "needle", (32, 24), (600, 1200), past=32),
    Candidates("sorting", "unique", (32, 24), (800, 1600), past=8),
)
SMOKE = (Candidates("parity", "answer", (2,), (4,), past=4),)
"""Of suite ``quick``, for a smoke run."""
