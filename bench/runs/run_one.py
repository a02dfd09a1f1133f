"""Trains and evaluates one run, in the current process (``lprime run`` calls it in worker processes)."""

import json
import platform
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Literal

import torch

from bench import encodings
from bench.encodings import Setup
from bench.plugins.registry import get_encoding
from bench.plugins.source_hash import source_hash
from bench.result import EncodingRecord, Parameters, Result, Timings, write_result
from bench.training.evaluate import evaluate, zero_scores
from bench.training.model import Decoder, build_decoder
from bench.training.optimizer import FlatAdamW
from bench.training.profiler import phase
from bench.training.train import Stopped, TrainingState, derive_seed, median_step_ms, stage_steps, train
from tasks import InputError, content_hash

from .checkpoint import load_checkpoint, save_checkpoint
from .git_commit import current_commit
from .run import CHECKPOINT, FAILURE, Run, now
from .run_lock import lock_run

Device = Literal["auto", "cpu", "cuda"]
REPORT_EVERY_S = 0.5


def run_one(
    run: Run,
    out: Path,
    device: Device = "auto",
    checkpoint_every_s: float = 10.0,
    report: Callable[[int], None] = lambda step: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Result:
    """Train and evaluate one run, resuming from its checkpoint; a finished run returns its stored result.

    Arguments:
        report: called with the step, about twice a second.
        should_stop: called after every step and between test batches; if it returns True the run saves its state and ends.

    Raises:
        Stopped: ``should_stop`` returned True; the checkpoint holds the state.
        LockedElsewhere: another process works on this run.
        InputError: the encoding is unknown, the folder cannot be written, or it holds a result of another suite version.
    """
    if result := run.result(out):
        return result
    folder = run.folder(out)
    with lock_run(folder):
        if result := run.result(out):  # another process finished it before we got the lock
            return result
        (folder / FAILURE).unlink(missing_ok=True)  # of an earlier attempt
        result = Session(run, folder, resolve_device(device), checkpoint_every_s, report, should_stop).train_and_evaluate()
        write_result(folder, result)
        (folder / CHECKPOINT).unlink(missing_ok=True)
        return result


def resolve_device(device: Device) -> torch.device:
    """The torch device; ``auto`` is the GPU if there is one.

    Raises:
        InputError: ``cuda`` without a GPU.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("device cuda was asked for, but torch sees no GPU here; expected auto or cpu")
    return torch.device("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")


def encoding_setup(run: Run) -> Setup:
    """Sizes and vocabulary that the run's encoding is built with."""
    task, model, length = run.suite.make_task(run.task), run.suite.model, run.suite.spec(run.task).train_length
    return Setup(
        layers=model.layers,
        width=model.width,
        heads=model.heads,
        head_width=model.width // model.heads,
        train_tokens=task.tokens(length),
        longest_tokens=task.tokens(task.longest),
        train_length=length,
        longest_length=task.longest,
        symbols=task.vocabulary.symbols,
        roles=task.vocabulary.roles,
    )


def build_model(run: Run) -> Decoder:
    """The run's model before training; it depends only on suite, task, encoding and seed."""
    return build_decoder(run.suite.model, get_encoding(run.encoding), encoding_setup(run), derive_seed("init", run.seed))


class Session:
    """Executes one run from its start or its checkpoint to its result."""

    def __init__(self, run: Run, folder: Path, device: torch.device, checkpoint_every_s: float, report, should_stop):
        self.run, self.folder, self.device = run, folder, device
        self.report, self.should_stop = report, should_stop
        self.checkpoint_every_s = checkpoint_every_s
        self.cls = get_encoding(run.encoding)
        self.spec = run.suite.spec(run.task)
        self.recipe = run.suite.recipe_for(run.task)
        self.model = build_model(run).to(device)
        self.optimizer = FlatAdamW(self.model, self.recipe)
        self.started, self.start, self.commit = now(), time.monotonic(), current_commit()
        self.cpu_share: float | None = None
        self.last_save = self.last_report = self.start
        self.save_duration = 0.0
        self.source, self.versions = source_hash(self.cls), package_versions()  # may fail: before training, not after
        # Resuming with another version of suite, encoding or torch would change the numbers.
        self.identity = json.dumps([run.suite.fingerprint, str(run), self.source, torch.__version__, str(device)])
        self.state = load_checkpoint(folder, self.model, self.optimizer, self.identity) or TrainingState(started=self.started)
        self.earlier_s = self.state.total_s

    def elapsed(self) -> float:
        """Seconds spent on this run, summed over all its sessions."""
        return self.earlier_s + time.monotonic() - self.start

    def save(self) -> None:
        start = time.monotonic()
        self.state.total_s = self.elapsed()
        with phase("checkpoint"):
            save_checkpoint(self.folder, self.model, self.optimizer, self.state, self.identity)
        self.last_save = time.monotonic()
        self.save_duration = self.last_save - start

    def after_step(self, state: TrainingState) -> None:
        time_now = time.monotonic()
        if self.should_stop():
            self.save()
            raise Stopped
        # Saving takes at most a fiftieth of the time, however large the model.
        if time_now - self.last_save > max(self.checkpoint_every_s, 50 * self.save_duration):
            self.save()
        if time_now - self.last_report > REPORT_EVERY_S:
            self.last_report = time_now
            self.report(state.step)

    def before_batch(self) -> None:
        if self.should_stop():
            raise Stopped

    def train_and_evaluate(self) -> Result:
        run, suite, state = self.run, self.run.suite, self.state
        task, test_sets = suite.make_task(run.task), suite.test_sets(run.task)
        stage = self.model.encoding.stage
        if state.step < self.recipe.steps + stage_steps(self.recipe, stage) and not state.diverged:
            cpu, wall = time.process_time(), time.perf_counter()
            train(self.model, self.optimizer, task, self.spec.train_length, self.recipe, run.seed, state, self.after_step)
            # Waiting for a GPU or for other threads is not CPU time: only a single CPU thread shows how busy the machine is.
            if self.device.type == "cpu" and torch.get_num_threads() == 1:
                self.cpu_share = round((time.process_time() - cpu) / (time.perf_counter() - wall), 3)
            self.save()  # a run interrupted during evaluation repeats only that
        start = time.monotonic()
        if state.diverged:
            scores = zero_scores(task, test_sets)
        else:
            with phase("evaluation"):
                scores = evaluate(self.model, task, test_sets, suite.test_seed, self.before_batch)
        return Result(
            suite=suite.name,
            suite_version=suite.version,
            fingerprint=suite.fingerprint,
            task=run.task,
            variant=task.variant,
            train_length=self.spec.train_length,
            longest_seen=task.longest if stage else self.spec.train_length,
            encoding=self.encoding_record(),
            seed=run.seed,
            status="diverged" if state.diverged else "done",
            steps=state.step,
            loss=state.loss,
            scores=scores,
            parameters=Parameters(model=count_parameters(self.model), encoding=count_parameters(self.model.encoding)),
            timings=Timings(
                step_ms=round(median_step_ms(state), 3),
                train_s=round(state.train_s, 3),
                evaluate_s=round(time.monotonic() - start, 3),
                total_s=round(self.elapsed(), 3),
                cpu_share=self.cpu_share,
            ),
            data_hash=content_hash(test_sets.values()),
            versions=self.versions,
            device=device_name(self.device),
            threads=torch.get_num_threads(),
            started=state.started,
            finished=now(),
            commit=self.commit,
        )

    def encoding_record(self) -> EncodingRecord:
        info = self.cls.info
        return EncodingRecord(
            name=info.name,
            family=info.family,
            ranking=info.ranking,
            year=info.year,
            title=info.title,
            link=info.link,
            settings=encodings.settings(self.cls),
            source_sha256=self.source,
        )


def count_parameters(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def package_versions() -> dict[str, str]:
    """Versions of Python and of the packages that compute the numbers."""
    packages = {name: metadata.version(name) for name in ("lprime", "numpy")}
    return {"python": platform.python_version(), "torch": torch.__version__} | packages


def device_name(device: torch.device) -> str:
    """Model name of the GPU or CPU."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    return f"cpu ({model})"
