"""Run all sections one after the other and record the conditions of the measurement."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from bench.result import reading
from bench.runs.devices import available_cores, device_name, package_versions
from bench.runs.run import now

from .evaluation import measure_evaluation
from .growth import measure_growth
from .libraries import LIBRARIES, PACKAGES, import_library
from .memory import measure_memory
from .overhead import measure_overhead
from .parts import measure_parts
from .plan import Plan
from .profile import measure_profile
from .record import Speed
from .steps import measure_steps


def measure_sections(plan: Plan, sections: Sequence[str]) -> Speed:
    """Measure the given sections.

    Raises:
        InputError: one of the libraries is not installed.
    """
    for library in LIBRARIES:
        import_library(library)
    torch.set_num_threads(1)
    started, wall, cpu = now(), time.perf_counter(), time.process_time()
    measured: dict[str, Any] = {}
    if "steps" in sections:
        measured["steps"] = [step for part in plan.steps for step in measure_steps(part)]
    here = {"evaluation": measure_evaluation, "growth": measure_growth, "parts": measure_parts, "profile": measure_profile}
    measured |= {name: measure(plan) for name, measure in here.items() if name in sections}
    cpu_share = (time.process_time() - cpu) / (time.perf_counter() - wall)
    in_subprocesses = {"memory": measure_memory, "overhead": measure_overhead}
    measured |= {name: measure(plan) for name, measure in in_subprocesses.items() if name in sections}
    return Speed(
        quick=plan.quick,
        date=started,
        took_s=round(time.perf_counter() - wall, 1),
        cpu_share=round(cpu_share, 4),
        device=device_name(torch.device("cpu")),
        cores=available_cores(),
        threads=torch.get_num_threads(),
        versions=package_versions(*PACKAGES),
        **measured,
    )


def read_record(path: Path) -> Speed:
    """The record of an earlier run.

    Raises:
        InputError: the file cannot be read or is not such a record.
    """
    with reading(path, "does not hold the numbers of make speed"):
        return Speed.model_validate_json(path.read_bytes())
