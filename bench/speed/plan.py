"""Amount of measurement: ``FULL`` takes minutes; ``QUICK`` is a smoke run for tests, with meaningless numbers."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.suites.suite import Suite

SECTIONS = ("steps", "evaluation", "memory", "growth", "parts", "profile", "overhead")


@dataclass(frozen=True)
class Budget:
    """Minimum rounds and seconds of a measurement, which ends once both are reached."""

    seconds: float
    rounds: int


@dataclass(frozen=True)
class StepPlan:
    """How to time the training steps of one suite."""

    suite: str
    tasks: tuple[str, ...]
    budget: Budget
    """For each task."""
    examples: int | None = None
    """Examples per step; None: the recipe's batch."""


@dataclass(frozen=True)
class Plan:
    """What to measure in each section."""

    steps: tuple[StepPlan, ...]
    tasks: tuple[str, ...]
    """Tasks of suite ``small`` for evaluation and memory."""
    evaluation: Budget
    test_examples: int | None
    """Examples per test length; None: as many as the suite has."""
    memory_steps: int
    """Training steps of each run in the memory measurement."""
    memory_long: tuple[int, int]
    """Training steps after which the memory of a long training is read: the second should be at most 1.2 times the first."""
    memory_examples: tuple[int, int]
    """A small and a large number of test examples."""
    growth: Budget
    """For each encoding."""
    growth_examples: int
    encodings: tuple[str, ...] | None
    """Encodings whose growth is measured; None: the whole catalogue."""
    profile: tuple[str, ...]
    """Tasks to profile, one whole run each."""
    grid: tuple[tuple[str, ...], tuple[str, ...]]
    """Encodings and tasks of ``quick`` for the overhead measurement; at least two runs."""
    grid_steps: int | None
    """Training steps of these runs and of those to profile; None: as many as in the recipe."""
    starts: int = 3
    """Number of timed start-ups of the grid, and of timed imports alone; the last start-up is followed by the whole grid."""
    quick: bool = False

    def shortened(self, suite: "Suite") -> "Suite":
        """The suite with this plan's training steps and test examples, where it has any."""
        changes: dict[str, object] = {"test_examples": self.test_examples} if self.test_examples else {}
        if self.grid_steps:
            changes["recipe"] = suite.recipe.model_copy(update={"steps": self.grid_steps})
            # A task's own recipe would override the suite's.
            changes["tasks"] = [spec.model_copy(update={"recipe": {}}) for spec in suite.tasks]
        return suite.model_copy(update=changes)


TASKS = ("copying", "addition", "parity", "key_retrieval", "sorting")
FULL = Plan(
    steps=(
        StepPlan("small", TASKS, Budget(11, 15)),
        # A whole batch of 128 would take each contestant seconds a step: a quarter keeps the shapes and the run short.
        StepPlan("standard", TASKS, Budget(20, 3), examples=32),
    ),
    tasks=TASKS,
    evaluation=Budget(5, 3),
    test_examples=None,
    memory_steps=20,
    memory_long=(100, 4000),
    memory_examples=(256, 2048),
    growth=Budget(1, 3),
    growth_examples=8,
    encodings=None,
    profile=("copying", "parity"),
    grid=(("nope",), ("parity", "copying", "key_retrieval", "sorting")),
    grid_steps=None,
)
QUICK = Plan(
    steps=(StepPlan("small", ("parity",), Budget(0, 2), examples=8),),
    tasks=("parity",),
    evaluation=Budget(0, 2),
    test_examples=8,
    memory_steps=1,
    memory_long=(1, 3),
    memory_examples=(8, 32),
    growth=Budget(0, 2),
    growth_examples=2,
    encodings=("nope", "t5"),
    profile=("parity",),
    grid=(("nope",), ("parity", "sorting")),
    grid_steps=20,
    starts=2,
    quick=True,
)
