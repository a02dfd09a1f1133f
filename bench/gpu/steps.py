"""Training steps of ours and of the libraries' models on a GPU, the libraries' also by ``torch.compile``."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import torch

from bench.runs.pool import environment, worker_environment
from bench.runs.worker import end_with_parent
from bench.speed.libraries import LibraryTraining, library_models
from bench.speed.plan import Budget
from bench.speed.record import Spread, Step
from bench.speed.steps import time_steps
from bench.speed.trainee import training_batch
from bench.suites.suite import Suite, load_suite

from .measurements import Steps, error_text, label

COMPILED = (
    ("x-transformers, flash", "nope"),
    ("x-transformers, flash", "rope"),
    ("x-transformers, flash", "alibi"),
    ("x-transformers", "t5"),
    ("GPT-2", "learned"),
    ("Llama", "rope"),
)
"""Models that are compiled: of each encoding the one whose attention is fused, where there is one. A model takes a minute."""
COMPILE_S = 600.0
"""Longest time to wait for a model."""
WARM_UP = 3
"""Steps before those that are timed: the first compiles the model."""


def measure_steps(suite: str, task: str, device: torch.device, budget: Budget, end: float) -> Steps:
    """A training step of ours and of the libraries' models, with the recipe's batch.

    Arguments:
        end: value of ``time.monotonic()`` from which on no further library's model is prepared.
    """
    found, failed = load_suite(suite), dict[str, Exception]()
    steps = time_steps(found, task, budget, found.recipe_for(task).batch, device, failed, end)
    steps = [step.model_copy(update={"suite": label(suite)}) for step in steps]
    return Steps(key=f"{label(suite)} {task}", steps=steps, left_out={who: error_text(error) for who, error in failed.items()})


@dataclass(frozen=True)
class Compiling:
    """A process that compiles a model, and then waits to be asked for its step times."""

    suite: str
    task: str
    who: str
    encoding: str
    process: BaseProcess
    pipe: Connection


@contextmanager
def compiling(wanted: Sequence[tuple[str, str]], device: torch.device) -> Iterator[list[Compiling]]:
    """Start compiling the libraries' models for suites and tasks, each in a process of its own."""
    spawn, started = get_context("spawn"), list[Compiling]()
    try:
        # One thread for each: inductor would start as many processes as there are cores for each of them.
        with environment(worker_environment() | {"TORCHINDUCTOR_COMPILE_THREADS": "1"}):
            for suite, task in wanted:
                for who, encoding in COMPILED:
                    ours, theirs = spawn.Pipe()
                    process = spawn.Process(
                        target=serve_step, args=(theirs, suite, task, who, encoding, device.type), daemon=True
                    )
                    process.start()
                    theirs.close()
                    started.append(Compiling(suite, task, who, encoding, process, ours))
        yield started
    finally:
        for one in started:
            one.process.kill()
            one.process.join()


def serve_step(pipe: Connection, suite: str, task: str, who: str, encoding: str, device: str) -> None:
    """Compile a model and wait; then send its step times, as a ``Step`` or the text of an error."""
    end_with_parent()
    os.nice(1)  # behind the comparisons of encodings, which run meanwhile
    try:
        found = load_suite(suite)
        training = compiled_training(found, task, who, encoding, torch.device(device))
        for number in range(WARM_UP):
            training.step(training_batch(found, task, found.recipe_for(task).batch, number))
        pipe.send("")
        pipe.send(time_compiled(training, found, task, who, encoding, rounds=pipe.recv()))
    except Exception as error:  # of the library or the compiler
        pipe.send(error_text(error))


def compiled_training(suite: Suite, task: str, who: str, encoding: str, device: torch.device) -> LibraryTraining:
    """The training of one library's model by ``torch.compile``."""
    generator = suite.make_task(task)
    models = library_models(suite.model, len(generator.vocabulary), generator.tokens(generator.longest))
    (model,) = [m for m in models if (m.who, m.encoding) == (who, encoding)]
    return LibraryTraining(model, suite.recipe_for(task), device, generator.tokens(suite.spec(task).train_length))


def time_compiled(training: LibraryTraining, suite: Suite, task: str, who: str, encoding: str, rounds: int) -> Step:
    """Time its steps, each on other examples."""
    size, times = suite.recipe_for(task).batch, []
    for number in range(rounds):
        examples = training_batch(suite, task, size, WARM_UP + number)
        arranged = training.arrange(examples)
        start = time.perf_counter()
        training.step(arranged)  # waits for the loss
        times.append(time.perf_counter() - start)
    return Step(
        suite=label(suite.name), task=task, encoding=encoding, who=f"{who}, compiled", examples=size,
        parameters=training.parameters, ms=Spread.of(times, 1e3),
    )  # fmt: skip


def measure_compiled(started: Sequence[Compiling], rounds: int, end: float) -> list[Steps]:
    """The step times of the compiled models, one after the other, when all are compiled; for each suite and task.

    Arguments:
        end: value of ``time.monotonic()`` until which to wait for a model.

    Raises:
        TimeoutError: a model was not compiled in time; all are to be compiled again.
    """

    def receive(one: Compiling) -> Step | str:
        try:
            left = min(max(0.0, end - time.monotonic()), COMPILE_S)
            if not one.pipe.poll(left):
                raise TimeoutError(f"{one.who} was not compiled in time")
            return one.pipe.recv()
        except (EOFError, ConnectionError):
            return "its process died"

    steps: dict[str, list[Step]] = {}
    left_out: dict[str, dict[str, str]] = {}
    for one, error in [(one, receive(one)) for one in started]:
        key = f"{label(one.suite)} {one.task} compiled"
        steps.setdefault(key, [])
        left_out.setdefault(key, {})
        found: Step | str = error
        if not error:
            with suppress(ConnectionError):  # which `receive` sees too
                one.pipe.send(rounds)
            found = receive(one)
        if isinstance(found, Step):
            steps[key].append(found)
        else:
            left_out[key][f"{one.encoding}, {one.who}, compiled"] = found
    return [Steps(key=key, steps=steps[key], left_out=left_out[key]) for key in steps]
