"""Suite ``standard`` on one GPU: a step beside the libraries', runs packed on it, and how long the suite takes.

Without a GPU there is nothing to measure; the smoke run then takes the same way on a core.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

import torch
import yaml

from bench.results import read_result
from bench.runs import RESULT
from bench.runs import plan as runs_of
from bench.suite import Suite, load_suite
from bench.work import device_name
from tasks import Examples, InputError

from .ours import Trainee, training_batch
from .plan import GpuPlan, Plan
from .record import Gpu, Packed, Spread, Step
from .rivals import Training, rivals
from .steps import ENCODINGS, OURS
from .timing import interleave

PLAIN = "lprime, not recorded"


def measure(plan: Plan, say: Callable[[str], None]) -> Gpu | None:
    if not (torch.cuda.is_available() or plan.quick):
        say("gpu: there is none")
        return None
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    suite = load_suite("small" if plan.quick else "standard")
    steps = []
    for task in plan.gpu.tasks:
        say(f"gpu: training steps, {task}")
        steps += one_task(suite, task, plan.gpu, device)
    packed = []
    for count in plan.gpu.packed:
        say(f"gpu: {count} runs at a time")
        packed.append(pack(suite, plan.gpu, count, device))
    runs = len(suite.encodings) * len(suite.tasks) * len(suite.seeds)
    return Gpu(suite=suite.name, runs=runs, device=device_name(device), steps=steps, packed=packed)


def one_task(suite: Suite, task: str, plan: GpuPlan, device: torch.device) -> list[Step]:
    """Steps of our recipe's batch; each contestant waits until the GPU has done what it was given."""
    recipe, made = suite.recipe_for(task), suite.make_task(task)
    ours = {(name, OURS): Trainee(suite, task, name, device) for name in ENCODINGS}
    plain = {(name, PLAIN): Trainee(suite, task, name, device, graphs=False) for name in ENCODINGS}
    trainees = ours | plain if device.type == "cuda" else ours
    theirs = {(r.encoding, r.who): r for r in rivals(suite.model, len(made.vocabulary), made.tokens(made.longest))}

    def waited(step: Callable[[Examples], object]) -> Callable[[Examples], object]:
        def run(examples: Examples) -> None:
            step(examples)
            if device.type == "cuda":
                torch.cuda.synchronize()

        return run

    contestants = {key: waited(trainee.step) for key, trainee in trainees.items()}
    contestants |= {key: waited(Training(rival, recipe, device).step) for key, rival in theirs.items()}

    def batch(number: int) -> Examples:
        return training_batch(suite, task, recipe.batch, number)

    times = interleave(contestants, batch, plan.budget, batch(0))
    counts = {key: trainee.parameters for key, trainee in trainees.items()}
    counts |= {key: rival.parameters for key, rival in theirs.items()}
    return [
        Step(suite=suite.name, task=task, encoding=key[0], who=key[1], parameters=count, ms=Spread.of(times[key], 1e3))
        for key, count in counts.items()
    ]


def pack(suite: Suite, plan: GpuPlan, count: int, device: torch.device) -> Packed:
    """One seed of the suite by the real command, ``count`` runs at a time, with fewer steps; from that, a whole run's time."""
    recipe = suite.recipe.model_copy(update={"steps": plan.steps, "warmup_steps": min(suite.recipe.warmup_steps, plan.steps)})
    specs = [spec.model_copy(update={"recipe": {}}) for spec in suite.tasks if spec.task in plan.tasks]
    short = suite.model_copy(update={"recipe": recipe, "tasks": specs, "seeds": suite.seeds[:1]})
    with tempfile.TemporaryDirectory() as scratch:
        file, out = Path(scratch, "suite.yaml"), Path(scratch, "runs")
        file.write_text(yaml.safe_dump(short.model_dump(mode="json")), encoding="utf-8")
        command = [sys.executable, "-m", "bench.cli", "run", str(file), f"--workers={count}", f"--device={device.type}"]
        done = subprocess.run([*command, f"--out={out}"], capture_output=True, text=True)
        if done.returncode:
            raise InputError(f"lprime run ended with {done.returncode}: {' '.join(done.stderr.split()[-40:])}")
        timings = {run: read_result(run.folder(out) / RESULT).timings for run in runs_of(short)}
    # All that is not a step, as evaluation and recording, comes once a run; steps as often as the recipe says.
    full = [t.total_s + t.step_ms * (suite.recipe_for(run.task).steps - plan.steps) / 1e3 for run, t in timings.items()]
    return Packed(
        at_once=count,
        step_ms=fmean(t.step_ms for t in timings.values()),
        evaluate_s=fmean(t.evaluate_s for t in timings.values()),
        runs_per_hour=3600 * count / fmean(full),
    )
