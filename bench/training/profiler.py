"""A clock for the phases of a run. Training and evaluation mark their phases; without a running clock that costs nothing."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

PHASES = ("data", "forward", "backward", "optimiser", "evaluation", "checkpoint", "rest")


@dataclass
class PhaseClock:
    """Seconds spent in each phase; time outside of all phases is ``rest``."""

    synchronize: Callable[[], None] = lambda: None
    """Called before every reading: on a GPU it waits for pending work."""
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    total: float = 0.0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self.synchronize()
        start = time.perf_counter()
        try:
            yield
        finally:
            self.synchronize()
            self.seconds[name] += time.perf_counter() - start

    def table(self) -> dict[str, float]:
        """Seconds by phase, in the order of ``PHASES``; their sum is the total."""
        table = {name: self.seconds[name] for name in PHASES[:-1]}
        return table | {"rest": self.total - sum(table.values())}


active_clock: PhaseClock | None = None
NO_CLOCK = nullcontext()


def phase(name: str) -> AbstractContextManager[None]:
    """Charge the time of a ``with`` block to a phase of the running clock, if there is one. Phases cannot be nested."""
    return active_clock.phase(name) if active_clock else NO_CLOCK


@contextmanager
def profile_phases(synchronize: Callable[[], None] = lambda: None) -> Iterator[PhaseClock]:
    """Run a clock during the block, in this process."""
    global active_clock
    clock, start = PhaseClock(synchronize), time.perf_counter()
    active_clock = clock
    try:
        yield clock
    finally:
        active_clock = None
        clock.total = time.perf_counter() - start
