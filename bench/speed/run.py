"""All sections one after the other, and what they were measured with."""

import os
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from bench.results import first_fault
from bench.runs import now
from bench.work import device_name, versions
from tasks import InputError

from . import data, generation, gpu, growth, memory, overhead, profile, steps
from .plan import Plan
from .record import Speed
from .rivals import LIBRARIES, libraries


def measure(plan: Plan, sections: Sequence[str], say: Callable[[str], None]) -> Speed:
    """Measure the sections named.

    Raises:
        InputError: one of the libraries is not installed.
    """
    libraries()
    torch.set_num_threads(1)
    started, wall, cpu = now(), time.perf_counter(), time.process_time()
    found: dict[str, Any] = {}
    if "steps" in sections:
        parts = zip(*(steps.measure(part, say) for part in plan.steps), strict=True)
        found |= {key: list(chain(*part)) for key, part in zip(("steps", "bounds", "loops"), parts, strict=True)}
    simple: dict[str, Callable[[Plan, Callable[[str], None]], list]] = {
        "evaluation": generation.measure,
        "generators": data.measure,
        "growth": growth.measure,
        "profile": profile.measure,
    }
    found |= {name: run(plan, say) for name, run in simple.items() if name in sections}
    share = (time.process_time() - cpu) / (time.perf_counter() - wall)
    if "memory" in sections:
        found["memory"] = memory.measure(plan, say)
    if "overhead" in sections:
        found["overhead"] = overhead.measure(plan, say)
    if "gpu" in sections:
        found["gpu"] = gpu.measure(plan, say)
    return Speed(
        quick=plan.quick,
        date=started,
        took_s=round(time.perf_counter() - wall, 1),
        cpu_share=round(share, 4),
        device=device_name(torch.device("cpu")),
        cores=len(os.sched_getaffinity(0)),
        threads=torch.get_num_threads(),
        versions=versions() | {name.replace("_", "-"): metadata.version(name) for name in LIBRARIES},
        **found,
    )


def read(path: Path) -> Speed:
    """The record of an earlier run.

    Raises:
        InputError: the file cannot be read or holds something else.
    """
    try:
        return Speed.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except ValidationError as error:
        raise InputError(f"{path} holds no numbers of make speed ({first_fault(error)})") from error
