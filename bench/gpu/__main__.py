"""``python -m bench.gpu``."""

import os
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"  # before numpy and torch load

import typer

from .candidates import SMOKE, STANDARD, Candidates

KINDS = ("equality", "steps", "packed", "grid", "calibration")
ONLY_HELP = f"Only these (repeatable): {', '.join(KINDS)}. Calibration runs only if named; the grid then trains its suite."


@dataclass(frozen=True)
class Size:
    """How much to measure."""

    encodings: tuple[str, ...] | None
    """Compared with the CPU; None: the whole catalogue."""
    equality_steps: int
    past: str
    """Suite at whose longest test length encodings are compared too."""
    steps: tuple[tuple[str, str], ...]
    """Suites and tasks whose steps are timed; on a GPU with the libraries' models compiled, too."""
    step_rounds: int
    """Turns of each model, of which each gives two times."""
    packed: tuple[str, ...]
    """Suites of which several trainings run at a time."""
    packed_counts: tuple[int, ...]
    packed_s: float
    """Seconds of the measurement with each number of trainings."""
    suite: str
    """Suite of the grid, and of the calibration."""
    candidates: tuple[Candidates, ...]
    """Settings of its tasks to try."""
    grid: tuple[tuple[str, ...], tuple[str, ...], tuple[int, ...]]
    """Its encodings, tasks and seeds."""


TASKS = ("copying", "addition", "parity", "key_retrieval", "sorting")
GRID = ("nope", "rope", "alibi", "t5", "sinusoidal", "learned", "fire", "kerple_log")
SUITES = ("standard", "small")
FULL = Size(
    encodings=None,
    equality_steps=20,
    past="standard",
    steps=tuple((suite, "copying") for suite in SUITES),
    step_rounds=15,
    packed=SUITES,
    packed_counts=(1, 2, 4, 8, 16),
    packed_s=4.0,
    suite="standard",
    candidates=STANDARD,
    grid=(GRID, TASKS, (0, 1, 2)),
)
BEGIN_S = 30.0
"""Seconds that must be left to begin a measurement of steps or packed runs, or a round of trials for the calibration."""
QUICK = Size(
    encodings=("nope", "randomised(rope)"),
    equality_steps=2,
    past="quick",
    steps=(("small", "parity"),),
    step_rounds=1,
    packed=("quick",),
    packed_counts=(1, 2),
    packed_s=0.5,
    suite="quick",
    candidates=SMOKE,
    grid=(("nope",), ("parity",), (0,)),
)


def gpu(
    minutes: Annotated[float, typer.Option(min=0.0, help="Begin nothing after so many minutes.")] = 25.0,
    out: Annotated[Path, typer.Option(metavar="DIR", help="For measurements, page and results; continued.")] = Path("gpu"),
    only: Annotated[list[str] | None, typer.Option(metavar="KIND", help=ONLY_HELP)] = None,
    workers: Annotated[int, typer.Option(min=1, help="Runs at a time of calibration and grid.")] = 8,
    mps: Annotated[bool, typer.Option("--mps", help="Calibration and grid with NVIDIA's Multi-Process Service.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A smoke run on the CPU; its numbers mean nothing.")] = False,
) -> None:
    """Compare every encoding on a GPU with the CPU, and measure speed. Continues where an earlier call stopped."""
    end = time.monotonic() + 60 * minutes

    import torch

    from bench.encodings import catalogue
    from bench.files import check_writable, write_atomic
    from bench.runs.devices import available_cores, device_name, package_versions
    from bench.runs.pool import environment
    from bench.runs.run import now
    from bench.speed.libraries import PACKAGES
    from bench.speed.plan import Budget
    from bench.suites.suite import load_suite
    from tasks import InputError, unknown

    from .calibration import calibrated, next_round, run_trials, write_suite
    from .equality import measure_equality
    from .grid import run_grid
    from .measurements import Failure, Machine, Measurement, Trial, append, error_text, label, read_measurements
    from .mps import multi_process_service
    from .packed import measure_packed
    from .page import render
    from .steps import compiling, measure_compiled, measure_steps

    for kind in only or []:
        if kind not in KINDS:
            raise unknown("kind of measurement", kind, KINDS)
    asked = set(only) if only else set(KINDS) - {"calibration"}
    if not (quick or torch.cuda.is_available()):
        raise InputError("no CUDA device was found; --quick tries the command on a CPU")
    device, size = torch.device("cpu" if quick else "cuda"), QUICK if quick else FULL
    Measured = Measurement | Sequence[Measurement]
    check_writable(out)
    path = out / "measurements.jsonl"
    known = {(m.kind, m.key) for m in read_measurements(path)}

    def keep(measured: Measurement) -> None:
        append(path, measured)
        write_atomic(out / "GPU.md", render(read_measurements(path)))
        left = max(0.0, end - time.monotonic()) / 60
        error = f": {measured.error}" if isinstance(measured, Failure) else ""
        print(f"{measured.kind} {measured.key}{error} ({left:.1f} min left)", flush=True)

    def attempt(
        kind: str,
        key: str,
        measure: Callable[..., Measured],
        *arguments: object,
        needs_s: float = 0.0,
    ) -> bool:
        """Measure unless it is known or there is no time left; returns False if it fails. A grid is continued."""
        if ((kind, key) in known and kind != "grid") or time.monotonic() + needs_s > end or kind not in asked:
            return True
        try:
            measured = measure(*arguments)
            for one in measured if isinstance(measured, Sequence) else [measured]:
                keep(one)
        except Exception as error:  # of a library or of an encoding: the next measurement may succeed
            keep(Failure(key=f"{kind} {key}", error=error_text(error)))
            return False
        return True

    cores = available_cores()
    keep(Machine(key=device_name(device), date=now(), cores=cores, versions=package_versions(*PACKAGES), quick=quick))
    budget = Budget(0.0, size.step_rounds)
    for suite, task in size.steps:
        attempt("steps", f"{label(suite)} {task}", measure_steps, suite, task, device, budget, end, needs_s=BEGIN_S)

    def pack(suite: str, mps: bool) -> bool:
        counts = [n for n in size.packed_counts if ("packed", f"{label(suite)} {n}{' mps' * mps}") not in known]
        key = f"{label(suite)}{' mps' * mps}"
        return not counts or attempt(
            "packed", key, measure_packed, suite, counts, mps, device, size.packed_s, end, needs_s=BEGIN_S
        )

    for suite in size.packed:
        pack(suite, mps=False)
    names = [name for name in size.encodings or catalogue() if ("equality", name) not in known]
    comparing = bool(names) and time.monotonic() < end and "equality" in asked
    uncompiled = [(suite, task) for suite, task in size.steps if ("steps", f"{label(suite)} {task} compiled") not in known]
    wanted = device.type == "cuda" and "steps" in asked and time.monotonic() + BEGIN_S < end
    with compiling(uncompiled if wanted else [], device) as started:
        if comparing:  # while the libraries' models are compiled
            measure_equality(names, device.type, size.equality_steps, size.past, max(1, cores - 1), end, keep)
        if started:
            attempt("steps", "compiled", measure_compiled, started, 2 * size.step_rounds, end)
    base = load_suite(size.suite)

    def tried() -> dict[str, Trial]:
        return {m.key: m for m in read_measurements(path) if isinstance(m, Trial)}

    chosen = out / f"{base.name}.yaml"

    def shared(measure: Callable[..., Measured]) -> Callable[..., Measured]:
        """The measurement with the Multi-Process Service, if that was asked for."""

        def with_service(*arguments: object) -> Measured:
            scratch, wanted = tempfile.TemporaryDirectory(ignore_cleanup_errors=True), mps and device.type == "cuda"
            with scratch as folder, multi_process_service(folder, wanted, checked=False) as variables, environment(variables):
                return measure(*arguments)

        return with_service

    def calibrate() -> bool:
        """Write the calibrated suite; returns False if trials are missing."""
        while specs := next_round(base, size.candidates, before := tried()):
            attempt("calibration", "trials", shared(run_trials), base, specs, workers, device, end, out, needs_s=BEGIN_S)
            if tried() == before:  # no time left, or they failed
                return False
        write_suite(chosen, calibrated(base, size.candidates, tried()))
        return True

    if "calibration" not in asked or calibrate():
        suite = str(chosen) if chosen.exists() else base.name
        attempt("grid", base.name, shared(run_grid), suite, size.grid, workers, device, end, out, needs_s=BEGIN_S)
    for suite in size.packed if device.type == "cuda" else ():  # last: a service that fails can leave the GPU unusable
        if not pack(suite, mps=True):
            break
    print((out / "GPU.md").read_text(encoding="utf-8"))


def main(arguments: list[str] | None = None) -> None:
    from bench.speed.command import run_command

    run_command(gpu, "gpu", arguments)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the processes it has started end with it
    main()
