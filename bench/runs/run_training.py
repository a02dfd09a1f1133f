"""The training of one run in this process: its model, optimizer and state, stored in the run's folder."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from bench.encodings import Setup
from bench.plugins.source_hash import source_hash
from bench.suites.suite import Suite
from bench.training.model import Decoder, build_decoder
from bench.training.optimizer import AdamW
from bench.training.train import Stopped, TrainingState, derive_seed, stage_steps, train

from .checkpoint import load_checkpoint, save_checkpoint
from .devices import resolve_device
from .run import CHECKPOINT, CHECKPOINT_EVERY_S, WEIGHTS, Run, now
from .run_lock import lock_training
from .shared_training import training_run, weights_file

AtStep = Callable[[int], None]
"""Called with the step after every step, and while the run waits or is tested; may raise ``Stopped``. See ``heartbeat``."""


def encoding_setup(suite: Suite, name: str) -> Setup:
    """Sizes and vocabulary that encodings are built with, for one task of a suite (of a run: its ``recipe_suite``)."""
    task, model, length = suite.make_task(name), suite.model, suite.spec(name).train_length
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
    setup = encoding_setup(run.recipe_suite, run.task)
    seed = derive_seed("init", run.seed)
    return build_decoder(run.suite.model, run.cls, setup, seed, run.recipe.precision)


def trained(
    run: Run,
    out: Path,
    device: str,
    keep_weights: bool,
    at_step: AtStep = lambda step: None,
    checkpoint_every_s: float = CHECKPOINT_EVERY_S,
    from_anywhere: bool = False,
) -> "Training":
    """Train a run, or load what is trained already, of this run or of the one whose training it shares.

    Arguments:
        device: ``auto``, ``cpu`` or ``cuda``.
        keep_weights: store the end of the training as ``WEIGHTS``.
        from_anywhere: stored weights may be of another torch or device.

    Raises:
        Stopped: by ``at_step``; the checkpoint holds the state.
        InputError: the encoding or the device is unknown, or the folder cannot be written.
    """
    how = resolve_device(device), at_step, checkpoint_every_s, from_anywhere
    training, shared = Training(run, out, *how), training_run(run)
    if shared.key == run.key:
        training.complete(keep_weights)
        return training
    training.trained_as = shared.encoding
    with lock_training(training.folder, at_step):
        if training.has_stage and training.load(WEIGHTS):
            return training
        if not (training.has_stage and training.load(CHECKPOINT)):
            first, begin = Training(shared, out, *how), time.monotonic()
            first.complete(keep=True)
            training.start += time.monotonic() - begin  # the time belongs to the run that owns the training
            training.continue_from(first)
        if not training.finished:  # the extra stage
            training.train()
        if training.has_stage and (keep_weights or training.has_old_weights):
            training.keep()
    return training


class Training:
    """A run's training, from its start, its checkpoint or its stored end."""

    def __init__(
        self, run: Run, out: Path, device: torch.device, at_step: AtStep, checkpoint_every_s: float, from_anywhere: bool
    ):
        self.run, self.out, self.folder, self.device = run, out, run.folder(out), device
        self.at_step, self.checkpoint_every_s, self.from_anywhere = at_step, checkpoint_every_s, from_anywhere
        self.recipe = run.recipe
        self.model = build_model(run).to(device)
        self.optimizer = AdamW(self.model, self.recipe)
        self.state = TrainingState(started=now())
        self.start = self.last_save = time.monotonic()
        self.earlier_s = 0.0
        self.steps = self.recipe.steps + stage_steps(self.recipe, self.model.encoding.stage)
        self.has_stage = self.steps > self.recipe.steps
        self.trained_as = ""
        """See ``Result.trained_as``."""
        source = source_hash(run.cls)
        # Resuming with another version of suite, encoding or torch would change the numbers.
        self.identity = json.dumps([run.suite.fingerprint, str(run), source, torch.__version__, str(device)])

    @property
    def finished(self) -> bool:
        return self.state.diverged or self.state.step == self.steps

    @property
    def has_old_weights(self) -> bool:
        """Whether the folder holds weights of a training that cannot be used, and that no result is of."""
        return (self.folder / WEIGHTS).exists()

    @property
    def weights(self) -> str:
        """See ``Result.weights``."""
        file = weights_file(self.run, self.out)
        return file.relative_to(self.out).as_posix() if file.exists() else ""

    def elapsed(self) -> float:
        """Seconds spent on this training and the run it is for, summed over all sessions."""
        return self.earlier_s + time.monotonic() - self.start

    def load(self, name: str) -> bool:
        """Restore the training from a file of its folder. Returns whether there is a usable one."""
        from_anywhere = self.from_anywhere and name == WEIGHTS
        state = load_checkpoint(self.folder, self.model, self.optimizer, self.identity, name, from_anywhere)
        if state:
            self.state, self.earlier_s = state, state.total_s
        return state is not None

    def complete(self, keep: bool) -> None:
        """Train to the end, or load the stored end. Waits while another process trains in this folder.

        Arguments:
            keep: store the end as ``WEIGHTS``; otherwise it remains as ``CHECKPOINT`` until the caller deletes it.
        """
        with lock_training(self.folder, self.at_step):
            self.start = time.monotonic()  # waiting does not count
            if self.load(WEIGHTS):
                return
            self.load(CHECKPOINT)
            if not self.finished:
                self.train()
            if keep or self.has_old_weights:
                self.keep()

    def keep(self) -> None:
        """Store the end of the training as ``WEIGHTS``, in place of its checkpoint."""
        self.save(WEIGHTS)
        (self.folder / CHECKPOINT).unlink(missing_ok=True)

    def continue_from(self, other: "Training") -> None:
        """Take over the end of another encoding's training, which is the same up to the recipe's last step.

        Parameters correspond in order; names differ by the ``base.`` of wrappers. Buffers are not copied: they never change.
        """
        with torch.no_grad():
            pairs = zip(self.model.named_parameters(), other.model.named_parameters(), strict=True)
            for (name, ours), (other_name, theirs) in pairs:
                if name.replace("base.", "") != other_name.replace("base.", ""):
                    raise ValueError(f"{self.run.encoding} does not train as {other.run.encoding}: {name}, {other_name}")
                ours.copy_(theirs)
        moments = zip(self.optimizer.moments().values(), other.optimizer.moments().values(), strict=True)
        for our_moment, their_moment in moments:
            our_moment.copy_(their_moment)
        self.state = replace(other.state, started=self.state.started, loss=list(other.state.loss))

    def train(self) -> None:
        """Train from the present state to the end; saves regularly, and at the end."""
        run, task = self.run, self.run.recipe_suite.make_task(self.run.task)
        cpu, wall = time.process_time(), time.perf_counter()
        try:
            train(self.model, self.optimizer, task, run.train_length, self.recipe, run.seed, self.state, self.after_step)
        except Stopped:
            self.save()
            raise
        # Waiting for a GPU or for other threads is not CPU time: only a single CPU thread shows how busy the machine is.
        # A stage after a shared training is too short to measure it.
        if self.device.type == "cpu" and torch.get_num_threads() == 1 and self.state.cpu_share is None:
            self.state.cpu_share = round((time.process_time() - cpu) / (time.perf_counter() - wall), 3)
        self.save()  # a run interrupted during evaluation repeats only that

    def save(self, name: str = CHECKPOINT) -> None:
        self.state.total_s = self.elapsed()
        save_checkpoint(self.folder, self.model, self.optimizer, self.state, self.identity, name)
        self.last_save = time.monotonic()

    def after_step(self, state: TrainingState) -> None:
        self.at_step(state.step)
        if time.monotonic() - self.last_save > self.checkpoint_every_s:
            self.save()
