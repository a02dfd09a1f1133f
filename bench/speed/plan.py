"""How much is measured: the whole run, which takes minutes, and the smoke run of the tests, whose numbers mean nothing."""

from dataclasses import dataclass

SECTIONS = ("steps", "evaluation", "generators", "memory", "growth", "profile", "overhead", "gpu")


@dataclass(frozen=True)
class Budget:
    """When a measurement has gone on for long enough: both are reached."""

    seconds: float
    rounds: int


@dataclass(frozen=True)
class StepPlan:
    """Training steps of one suite."""

    suite: str
    tasks: tuple[str, ...]
    budget: Budget
    """For each task."""
    examples: int | None = None
    """A step, in place of the recipe's batch."""


@dataclass(frozen=True)
class GpuPlan:
    """Suite ``standard`` on one GPU, where there is one."""

    tasks: tuple[str, ...]
    budget: Budget
    """For the steps of each task."""
    packed: tuple[int, ...]
    """Runs at a time: divisors of a seed's runs, so that none of them ends with the GPU to itself."""
    steps: int
    """Training steps of each of them, in place of the recipe's."""


@dataclass(frozen=True)
class Plan:
    """All sections."""

    steps: tuple[StepPlan, ...]
    tasks: tuple[str, ...]
    """Of suite ``small``, for evaluation, generators and memory."""
    evaluation: Budget
    test_examples: int | None
    """In place of the suite's."""
    generators: Budget
    memory_steps: int
    """Training steps of each run whose memory is measured."""
    memory_examples: tuple[int, int]
    """Test examples, few and many."""
    growth: Budget
    """For each encoding."""
    growth_examples: int
    encodings: tuple[str, ...] | None
    """For growth; None: the catalogue."""
    profile: tuple[str, ...]
    """Tasks of which a whole run is profiled."""
    grid: tuple[tuple[str, ...], tuple[str, ...]]
    """Encodings and tasks of the part of ``quick`` that is run, two runs at least."""
    grid_steps: int | None
    """In place of the recipe's."""
    gpu: "GpuPlan"
    quick: bool = False


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
    generators=Budget(1.5, 5),
    memory_steps=20,
    memory_examples=(256, 2048),
    growth=Budget(1, 3),
    growth_examples=8,
    encodings=None,
    profile=("copying", "parity"),
    grid=(("nope",), ("parity", "copying", "key_retrieval", "sorting")),
    grid_steps=None,
    gpu=GpuPlan(TASKS, Budget(5, 20), packed=(1, 2, 5, 6, 10, 15), steps=500),
)
QUICK = Plan(
    steps=(StepPlan("small", ("parity",), Budget(0, 2), examples=8),),
    tasks=("parity",),
    evaluation=Budget(0, 2),
    test_examples=8,
    generators=Budget(0, 2),
    memory_steps=1,
    memory_examples=(8, 32),
    growth=Budget(0, 2),
    growth_examples=2,
    encodings=("nope", "t5"),
    profile=("parity",),
    grid=(("nope",), ("parity", "sorting")),
    grid_steps=20,
    gpu=GpuPlan(("parity",), Budget(0, 3), packed=(2,), steps=6),
    quick=True,
)
