"""Suite ``standard`` on one GPU: a step next to the libraries', several runs on it at a time, and the time of the whole suite.

Without a GPU nothing is measured; the smoke run then exercises the same code on the CPU.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import fmean

import torch
import yaml

from bench.result import read_result
from bench.runs.run import RESULT
from bench.runs.run import plan_runs as runs_of
from bench.runs.run_one import device_name
from bench.suites.suite import Suite, load_suite
from tasks import InputError

from .plan import GpuPlan, Plan
from .record import Gpu, Packed
from .steps import time_steps
from .timing import log


def measure_gpu(plan: Plan) -> Gpu | None:
    if not (torch.cuda.is_available() or plan.quick):
        log("gpu: none found")
        return None
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    suite = load_suite("small" if plan.quick else "standard")
    steps, packed = [], []
    for task in plan.gpu.tasks:
        log(f"gpu: training steps, {task}")
        steps += time_steps(suite, task, plan.gpu.budget, suite.recipe_for(task).batch, device)
    for count in plan.gpu.packed:
        log(f"gpu: {count} runs at a time")
        packed.append(measure_packed(suite, plan.gpu, count, device))
    runs = len(suite.encodings) * len(suite.tasks) * len(suite.seeds)
    return Gpu(suite=suite.name, runs=runs, device=device_name(device), steps=steps, packed=packed)


def measure_packed(suite: Suite, plan: GpuPlan, count: int, device: torch.device) -> Packed:
    """Run one seed of the suite by the real command with fewer steps, ``count`` runs at a time; extrapolate to whole runs."""
    recipe = suite.recipe.model_copy(update={"steps": plan.steps, "warmup_steps": min(suite.recipe.warmup_steps, plan.steps)})
    specs = [spec.model_copy(update={"recipe": {}}) for spec in suite.tasks if spec.task in plan.tasks]
    short = suite.model_copy(update={"recipe": recipe, "tasks": specs, "seeds": suite.seeds[:1]})
    with tempfile.TemporaryDirectory() as scratch:
        file, out = Path(scratch, "suite.yaml"), Path(scratch, "runs")
        file.write_text(yaml.safe_dump(short.model_dump(mode="json")), encoding="utf-8")
        command = [sys.executable, "-m", "lprime", "run", str(file), f"--workers={count}", f"--device={device.type}"]
        done = subprocess.run([*command, f"--out={out}"], capture_output=True, text=True)
        if done.returncode:
            raise InputError(f"lprime run ended with {done.returncode}: {' '.join(done.stderr.split()[-40:])}")
        timings = {run: read_result(run.folder(out) / RESULT).timings for run in runs_of(short)}
    # Everything but steps (evaluation, recording of graphs) happens once per run; only the steps are extrapolated.
    full = [t.total_s + t.step_ms * (suite.recipe_for(run.task).steps - plan.steps) / 1e3 for run, t in timings.items()]
    return Packed(
        at_once=count,
        step_ms=fmean(t.step_ms for t in timings.values()),
        evaluate_s=fmean(t.evaluate_s for t in timings.values()),
        runs_per_hour=3600 * count / fmean(full),
    )
