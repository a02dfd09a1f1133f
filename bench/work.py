"""One run from start to result, in whatever process it is given: this one, a local worker, a job on a cluster."""

import json
import platform
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Literal

import torch

from tasks import InputError, content_hash

from . import encodings
from .checkpoint import load_checkpoint, save_checkpoint
from .commit import commit
from .encodings import Setup
from .evaluate import evaluate, zero_scores
from .model import Decoder, build
from .optimizer import FlatAdamW
from .phases import phase
from .results import EncodingRecord, Parameters, Result, Timings, write_result
from .runs import CHECKPOINT, FAILURE, Run, lock, now
from .train import State, Stopped, median_step_ms, seed_of, stage_steps, train

Device = Literal["auto", "cpu", "cuda"]
REPORT_EVERY_S = 0.5


def execute(
    run: Run,
    out: Path,
    device: Device = "auto",
    checkpoint_every_s: float = 10.0,
    report: Callable[[int], None] = lambda step: None,
    stopping: Callable[[], bool] = lambda: False,
) -> Result:
    """Train and test one run, or go on where it stopped; a run that is over returns its result at once.

    Arguments:
        report: told the step, about twice a second.
        stopping: asked after every step and between test batches; when it says True the run saves itself and ends.

    Raises:
        Stopped: ``stopping`` said so; the checkpoint holds everything.
        LockedElsewhere: another process works on this run.
        InputError: an unknown encoding, a folder that cannot be written, a result of another suite version.
    """
    if result := run.result(out):
        return result
    folder = run.folder(out)
    with lock(folder):
        if result := run.result(out):  # finished by another process while we were on our way to the lock
            return result
        (folder / FAILURE).unlink(missing_ok=True)  # this attempt is a new one
        result = Session(run, folder, pick(device), checkpoint_every_s, report, stopping).run()
        write_result(folder, result)
        (folder / CHECKPOINT).unlink(missing_ok=True)
        return result


def pick(device: Device) -> torch.device:
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("device cuda was asked for, but torch sees no GPU here; expected auto or cpu")
    return torch.device("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")


def setup_of(run: Run) -> Setup:
    """What the run's encoding may know for the life of its model."""
    task, model = run.suite.make_task(run.task), run.suite.model
    return Setup(
        layers=model.layers,
        width=model.width,
        heads=model.heads,
        head_width=model.width // model.heads,
        train_tokens=task.tokens(run.suite.spec(run.task).train_length),
        longest_tokens=task.tokens(run.suite.longest(run.task)),
        symbols=task.vocabulary.symbols,
        roles=task.vocabulary.roles,
    )


def build_model(run: Run) -> Decoder:
    """The run's model at its start: hangs on suite, task, encoding and seed alone."""
    return build(run.suite.model, encodings.get(run.encoding), setup_of(run), seed_of("init", run.seed))


class Session:
    """The state of one run under way."""

    def __init__(self, run: Run, folder: Path, device: torch.device, checkpoint_every_s: float, report, stopping):
        self.run_, self.folder, self.device = run, folder, device
        self.report, self.stopping = report, stopping
        self.checkpoint_every_s = checkpoint_every_s
        self.cls = encodings.get(run.encoding)
        self.spec = run.suite.spec(run.task)
        self.recipe = run.suite.recipe_for(run.task)
        self.model = build_model(run).to(device)
        self.optimizer = FlatAdamW(self.model, self.recipe)
        self.started, self.clock, self.commit = now(), time.monotonic(), commit()
        self.cpu_share: float | None = None
        self.saved = self.reported = self.clock
        self.save_took = 0.0
        self.source, self.versions = encodings.source_hash(self.cls), versions()  # before hours of work, not after
        # A checkpoint made with another version of suite, encoding or torch would not give the same numbers.
        self.identity = json.dumps([run.suite.fingerprint, str(run), self.source, torch.__version__, str(device)])
        self.state = load_checkpoint(folder, self.model, self.optimizer, self.identity) or State(started=self.started)
        self.before_s = self.state.total_s

    def elapsed(self) -> float:
        """Seconds on this run, over all of its interruptions."""
        return self.before_s + time.monotonic() - self.clock

    def save(self) -> None:
        start = time.monotonic()
        self.state.total_s = self.elapsed()
        with phase("checkpoint"):
            save_checkpoint(self.folder, self.model, self.optimizer, self.state, self.identity)
        self.saved = time.monotonic()
        self.save_took = self.saved - start

    def after_step(self, state: State) -> None:
        clock = time.monotonic()
        if self.stopping():
            self.save()
            raise Stopped
        # Never more than a fiftieth of the time goes into saving, however large the model.
        if clock - self.saved > max(self.checkpoint_every_s, 50 * self.save_took):
            self.save()
        if clock - self.reported > REPORT_EVERY_S:
            self.reported = clock
            self.report(state.step)

    def between_batches(self) -> None:
        if self.stopping():
            raise Stopped

    def run(self) -> Result:
        run, suite, state = self.run_, self.run_.suite, self.state
        task, test_sets = suite.make_task(run.task), suite.test_sets(run.task)
        stage = self.model.encoding.stage
        if state.step < self.recipe.steps + stage_steps(self.recipe, stage) and not state.diverged:
            cpu, wall = time.process_time(), time.perf_counter()
            train(self.model, self.optimizer, task, self.spec.train_length, self.recipe, run.seed, state, self.after_step)
            # A GPU is waited for, and threads wait for each other: only a single thread of a CPU tells how busy the machine is.
            if self.device.type == "cpu" and torch.get_num_threads() == 1:
                self.cpu_share = round((time.process_time() - cpu) / (time.perf_counter() - wall), 3)
            self.save()  # evaluation is not saved, so what comes before it is
        start = time.monotonic()
        if state.diverged:
            scores = zero_scores(task, test_sets)
        else:
            with phase("evaluation"):
                scores = evaluate(self.model, task, test_sets, suite.test_seed, self.between_batches)
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
            parameters=Parameters(model=parameters(self.model), encoding=parameters(self.model.encoding)),
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


def parameters(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def versions() -> dict[str, str]:
    """What the numbers were made with."""
    packages = {name: metadata.version(name) for name in ("lprime", "numpy")}
    return {"python": platform.python_version(), "torch": torch.__version__} | packages


def device_name(device: torch.device) -> str:
    """The GPU's or the processor's model."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    return f"cpu ({model})"
