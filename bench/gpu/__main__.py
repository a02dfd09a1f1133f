"""``python -m bench.gpu``."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"  # before numpy and torch load

import typer

KINDS = ("equality", "steps", "packed", "grid")


@dataclass(frozen=True)
class Size:
    """How much to measure."""

    encodings: tuple[str, ...] | None
    """Compared with the CPU; None: the whole catalogue."""
    equality_steps: int
    past: str
    """Suite at whose longest test length encodings are compared too."""
    steps: tuple[tuple[str, str], ...]
    """Suites and tasks whose steps are timed."""
    step_rounds: int
    compiled: tuple[tuple[str, str], ...]
    """Suites and tasks whose steps are timed again, with the libraries' models compiled: half a minute for each model."""
    packed: tuple[tuple[str, int, bool], ...]
    """Suite, runs at a time, with MPS."""
    packed_steps: int
    grid: tuple[str, tuple[str, ...], tuple[str, ...], tuple[int, ...]]
    """Suite, encodings, tasks and seeds."""


TASKS = ("copying", "addition", "parity", "key_retrieval", "sorting")
GRID = ("nope", "rope", "alibi", "t5", "sinusoidal", "learned", "fire", "kerple_log")
SUITES = ("standard", "small")
FULL = Size(
    encodings=None,
    equality_steps=20,
    past="standard",
    steps=tuple((suite, task) for suite in SUITES for task in TASKS),
    step_rounds=30,
    compiled=tuple((suite, "copying") for suite in SUITES),
    packed=tuple((suite, n, mps) for suite in SUITES for n in (1, 2, 4, 8, 16) for mps in (False, True) if n > 1 or not mps),
    packed_steps=500,
    grid=("standard", GRID, TASKS, (0, 1, 2)),
)
QUICK = Size(
    encodings=("nope", "randomised(rope)"),
    equality_steps=2,
    past="quick",
    steps=(("small", "parity"),),
    step_rounds=1,
    compiled=(),
    packed=(("quick", 2, False),),
    packed_steps=3,
    grid=("quick", ("nope",), ("parity",), (0,)),
)


def gpu(
    minutes: Annotated[float, typer.Option(min=0.0, help="Begin nothing after so many minutes.")] = 25.0,
    out: Annotated[Path, typer.Option(metavar="DIR", help="For measurements, page and results; continued.")] = Path("gpu"),
    only: Annotated[
        list[str] | None, typer.Option(metavar="KIND", help=f"Only these: {', '.join(KINDS)} (repeatable).")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Runs at a time of the grid.")] = 8,
    quick: Annotated[bool, typer.Option("--quick", help="A smoke run on the CPU; its numbers mean nothing.")] = False,
) -> None:
    """Compare every encoding on a GPU with the CPU, and measure speed. Continues where an earlier call stopped."""
    import torch

    from bench.encodings import catalogue
    from bench.files import write_atomic
    from bench.runs.devices import available_cores
    from bench.runs.run import now
    from bench.runs.run_one import device_name, package_versions
    from bench.speed.plan import Budget
    from tasks import InputError, unknown

    from .equality import measure_equality
    from .measurements import Failure, Machine, Measurement, append, read_measurements
    from .page import render
    from .throughput import measure_packed, measure_steps, run_grid

    for kind in only or []:
        if kind not in KINDS:
            raise unknown("kind of measurement", kind, KINDS)
    if not (quick or torch.cuda.is_available()):
        raise InputError("no CUDA device was found; --quick tries the command on a CPU")
    device, size, end = torch.device("cpu" if quick else "cuda"), QUICK if quick else FULL, time.monotonic() + 60 * minutes
    out.mkdir(parents=True, exist_ok=True)
    path = out / "measurements.jsonl"
    known = {(m.kind, m.key) for m in read_measurements(path)}

    def keep(measured: Measurement) -> None:
        append(path, measured)
        write_atomic(out / "GPU.md", render(read_measurements(path)))
        left = max(0.0, end - time.monotonic()) / 60
        error = f": {measured.error}" if isinstance(measured, Failure) else ""
        print(f"{measured.kind} {measured.key}{error} ({left:.1f} min left)")

    def attempt(kind: str, key: str, measure: Callable[..., Measurement], *arguments: object) -> None:
        if (kind, key) in known or time.monotonic() > end or (only and kind not in only):
            return
        try:
            keep(measure(*arguments))
        except Exception as error:  # of a library or of an encoding: the next measurement may succeed
            keep(Failure(key=f"{kind} {key}", error=" ".join(f"{type(error).__name__}: {error}".split())[:500]))

    cores = available_cores()
    keep(Machine(key=device_name(device), date=now(), cores=cores, versions=package_versions(), quick=quick))
    names = [name for name in size.encodings or catalogue() if ("equality", name) not in known]
    if names and time.monotonic() < end and (not only or "equality" in only):
        measure_equality(names, device.type, size.equality_steps, size.past, max(1, min(8, cores - 1)), end, keep)
    budget = Budget(0.0, size.step_rounds)
    for suite, task in size.steps:
        attempt("steps", f"{suite} {task}", measure_steps, suite, task, device, budget, False)
    for suite, count, mps in size.packed:
        key = f"{suite} {count}{' mps' * mps}"
        attempt("packed", key, measure_packed, suite, count, mps, device, size.packed_steps)
    for suite, task in size.compiled:
        attempt("steps", f"{suite} {task} compiled", measure_steps, suite, task, device, budget, True)
    left = end - time.monotonic()
    if left > 0 and (not only or "grid" in only):
        suite, *chosen = size.grid
        keep(run_grid(suite, dict(zip(("encoding", "task", "seed"), chosen, strict=True)), workers, device, left, out))
    print((out / "GPU.md").read_text(encoding="utf-8"))


def main(arguments: list[str] | None = None) -> None:
    from bench.speed.command import run_command

    run_command(gpu, "gpu", arguments)


if __name__ == "__main__":
    main()
