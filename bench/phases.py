"""Where the time of a run goes: a clock that training and evaluation tell what they are at. It does nothing unless asked to."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

PHASES = ("data", "forward", "backward", "optimiser", "evaluation", "checkpoint", "rest")


@dataclass
class Clock:
    """Seconds spent in each phase while the clock runs; what no phase claims is the rest."""

    wait: Callable[[], None] = lambda: None
    """Called before every reading: on a GPU, until it has done what it was given."""
    spent: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    total: float = 0.0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self.wait()
        start = time.perf_counter()
        try:
            yield
        finally:
            self.wait()
            self.spent[name] += time.perf_counter() - start

    def table(self) -> dict[str, float]:
        """Seconds by phase, in the order of ``PHASES``; together they are the total."""
        found = {name: self.spent[name] for name in PHASES[:-1]}
        return found | {"rest": self.total - sum(found.values())}


running: Clock | None = None
NOTHING = nullcontext()


def phase(name: str) -> AbstractContextManager[None]:
    """``with phase("data"): …``: charged to that phase of the clock that runs, if one does."""
    return running.phase(name) if running else NOTHING


@contextmanager
def clocked(wait: Callable[[], None] = lambda: None) -> Iterator[Clock]:
    """Run a clock over everything in the block, in this process. Phases may not lie inside of each other."""
    global running
    clock, start = Clock(wait), time.perf_counter()
    running = clock
    try:
        yield clock
    finally:
        running = None
        clock.total = time.perf_counter() - start
