"""Every encoding on the GPU against the CPU: in fp32, in bf16, and recorded as a CUDA graph.

At each step both devices start from the same weights and get the same examples; the CPU's gradients make the next weights. So
differences are those of one step, and do not grow from step to step. Random encodings draw on the CPU for both.
"""

import logging
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from queue import SimpleQueue

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from bench.runs.run import Run
from bench.runs.run_training import build_model
from bench.runs.worker import end_with_parent
from bench.speed.trainee import training_batch
from bench.suites.suite import Suite, load_suite
from bench.training.batches import IGNORED, Batch, as_batch, few_shapes_batch
from bench.training.cuda_graphs import StaticFunction, cuda_graph
from bench.training.model import Decoder
from bench.training.optimizer import FlatAdamW
from bench.training.train import graphed_step, seeded_generator
from tasks import Examples

from .measurements import Equality, Failure, error_text

SUITE, TASK = "small", "copying"
PAST_EXAMPLES = 2
"""Examples of the longest test length."""
COMPARE_S, LATE_S = 180.0, 30.0
"""Time limits: of one encoding, and of those still compared when the command's time is over."""
FP32 = 1e-4
"""Largest accepted relative difference of loss, gradient and logits in fp32."""
BF16_LOSS, BF16_GRADIENT = 0.02, 0.2
"""The same in bf16, whose numbers have 8 bits: a rounding is up to .4 %, and three layers have some fifty in a row."""


RANDOM = "draws random numbers"
"""Why an encoding is not even tried to be recorded."""


class DrawOnCPU(TorchFunctionMode):
    """Random numbers drawn with a generator come from the CPU and are copied to the device."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if kwargs.get("generator") is None or "device" not in kwargs:
            return function(*args, **kwargs)
        device = kwargs.pop("device")
        return function(*args, **kwargs, device="cpu").to(device)


def measure_equality(
    names: Sequence[str],
    device: str,
    steps: int,
    past: str,
    processes: int,
    end: float,
    report: Callable[[Equality | Failure], None],
) -> None:
    """Compare encodings, several at a time, and report each when it is done.

    Arguments:
        past: suite at whose longest test length they are compared too.
        end: value of ``time.monotonic()`` from which on no comparison begins.
    """
    comparers = [Comparer(device, steps, past) for _ in range(processes)]
    free: SimpleQueue[Comparer] = SimpleQueue()
    for comparer in comparers:
        free.put(comparer)

    def compare_before_end(name: str) -> Equality | Failure | None:
        left = end - time.monotonic()
        if left <= 0:
            return None
        comparer = free.get()
        try:
            return comparer.compare(name, min(COMPARE_S, left + LATE_S))
        finally:
            free.put(comparer)

    with ThreadPoolExecutor(processes) as pool:
        try:
            for job in as_completed([pool.submit(compare_before_end, name) for name in names]):
                if found := job.result():
                    report(found)
        finally:  # after a signal, too: the threads wait for these processes, and the pool for the threads
            pool.shutdown(wait=False, cancel_futures=True)
            for comparer in comparers:
                comparer.stop()


class Comparer:
    """Compares encodings in a process of its own. An error or a failed recording can leave CUDA unusable: then in a new one."""

    def __init__(self, device: str, steps: int, past: str) -> None:
        self.arguments = device, steps, past
        self.process: BaseProcess | None = None
        self.pipe: Connection

    def start(self) -> BaseProcess:
        spawn = get_context("spawn")
        self.pipe, theirs = spawn.Pipe()
        process = spawn.Process(target=serve_comparisons, args=(theirs, *self.arguments), daemon=True)
        process.start()
        theirs.close()
        return process

    def compare(self, name: str, seconds: float) -> Equality | Failure:
        self.process = process = self.process or self.start()
        try:
            self.pipe.send(name)
            found = self.pipe.recv() if self.pipe.poll(seconds) else f"takes longer than {seconds:.0f} s"
        except (EOFError, ConnectionError):
            process.join()
            found = f"its process ended with {process.exitcode}"
        if isinstance(found, str) or found.fallback not in ("", RANDOM):
            self.stop()
        return Failure(key=f"equality {name}", error=found) if isinstance(found, str) else found

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None


def serve_comparisons(pipe: Connection, device: str, steps: int, past: str) -> None:
    """Compare the encodings that are asked for, and send each comparison, or the text of its error."""
    end_with_parent()
    while True:
        try:
            name = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(compare(name, device, steps, past))
        except Exception as error:  # of any encoding's code
            pipe.send(error_text(error))


def compare(name: str, device_name: str, steps: int, past: str) -> Equality:
    """Compare one encoding over training steps of copying at ``small``'s size, and in a test of copying of suite ``past``."""
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("highest")  # torch's default, which variables of the environment can change
    suite, device = load_suite(SUITE), torch.device(device_name)
    run, task, length = Run(suite, TASK, name, 0), suite.make_task(TASK), suite.spec(TASK).train_length
    ours, theirs = build_model(run), build_model(run).to(device)
    recipe, announced = suite.recipe_for(TASK), task.tokens(length)
    optimizer = FlatAdamW(ours, recipe)
    fp32, bf16 = Largest(), Largest()
    for step in range(steps):
        examples = training_batch(suite, TASK, recipe.batch, step)
        batch = as_batch(examples)
        theirs.load_state_dict(ours.state_dict())
        expected = loss_and_gradients(ours, batch, announced, step, low=False)
        for low, seen in ((False, fp32), (True, bf16)):
            seen.add(loss_and_gradients(theirs, batch.to(device), announced, step, low), expected)
        optimizer.clip(recipe.clip_norm)
        optimizer.step()
    graph, fallback = compare_recording(theirs, suite, steps, announced)
    past_fp32, past_bf16 = compare_past(name, load_suite(past), device)
    return Equality(
        key=name, loss=fp32.loss, gradient=fp32.gradient, bf16_loss=bf16.loss, bf16_gradient=bf16.gradient,
        past_logits=past_fp32, past_bf16_logits=past_bf16,
        graph_loss=None if fallback else graph.loss, graph_gradient=None if fallback else graph.gradient, fallback=fallback,
    )  # fmt: skip


Outcome = tuple[Tensor, list[Tensor]]
"""A loss, and a gradient for each parameter."""


class Largest:
    """Largest relative differences seen of losses and gradients; 1e300 stands for infinite ones and NaN."""

    def __init__(self) -> None:
        self.loss = self.gradient = 0.0

    def add(self, found: Outcome, expected: Outcome) -> None:
        self.loss = max(self.loss, relative([found[0]], [expected[0]]))
        self.gradient = max(self.gradient, relative(found[1], expected[1]))


def relative(found: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """‖a − b‖ / ‖b‖ of all tensors as one vector, in double precision."""
    a, b = (torch.cat([t.detach().cpu().double().flatten() for t in tensors]) for tensors in (found, expected))
    difference = float((a - b).norm() / b.norm().clamp_min(1e-300))
    return difference if difference < math.inf else 1e300


def loss_and_gradients(model: Decoder, batch: Batch, announced_length: int, step: int, low: bool) -> Outcome:
    """A training step's loss and gradients as ``bench.training.train`` computes them, in fp32 or bf16 on any device."""
    model.zero_grad()
    device = batch.targets.device
    generator = seeded_generator("gpu", step, device=torch.device("cpu"))
    with DrawOnCPU(), torch.autocast(device.type, torch.bfloat16, enabled=low):
        hidden = model.target_states(batch, announced_length, generator)
    loss = F.cross_entropy(model.logits(hidden.float()), batch.targets, ignore_index=IGNORED)
    loss.backward()
    return loss.detach(), gradients(model)


def compare_past(name: str, suite: Suite, device: torch.device) -> tuple[float, float]:
    """Relative difference of an untrained model's logits at the longest test length of copying, in fp32 and in bf16.

    A bias of −3 in bf16 is accurate to 1/64, so that near distances past L may become equal.
    """
    run, (length, examples) = Run(suite, TASK, name, 0), list(suite.test_sets(TASK).items())[-1]
    batch, announced = as_batch(examples.rows(slice(PAST_EXAMPLES))), suite.make_task(TASK).tokens(length)

    @torch.inference_mode()
    def logits(on: torch.device, low: bool) -> Tensor:
        model, generator = build_model(run).to(on).eval(), seeded_generator("gpu", 0, device=torch.device("cpu"))
        with DrawOnCPU(), torch.autocast(on.type, torch.bfloat16, enabled=low):
            hidden = model.target_states(batch.to(on), announced, generator)
        return model.logits(hidden.float())

    expected = logits(torch.device("cpu"), low=False)
    return relative([logits(device, low=False)], [expected]), relative([logits(device, low=True)], [expected])


def gradients(model: nn.Module) -> list[Tensor]:
    return [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in model.parameters()]


def recomputed(function: StaticFunction):
    """In place of ``cuda_graph`` where there is no GPU: every replay computes again."""
    outputs = function()

    def replay() -> None:
        for old, new in zip(outputs, function(), strict=True):
            old.copy_(new)

    return outputs, replay


def compare_recording(model: Decoder, suite: Suite, steps: int, announced_length: int) -> tuple[Largest, str]:
    """Recorded steps against the same steps without a graph, and why there is no graph if there is none."""
    task, length, recipe = suite.make_task(TASK), suite.spec(TASK).train_length, suite.recipe_for(TASK)
    on_gpu = model.embedding.weight.device.type == "cuda"
    graphs, seen, reasons = graphed_step(model, cuda_graph if on_gpu else recomputed), Largest(), Reasons()
    logger = logging.getLogger("bench.training.cuda_graphs")
    logger.addHandler(reasons)
    try:
        for step in range(steps):
            if not graphs.usable:
                break
            examples: Examples = training_batch(suite, TASK, recipe.batch, step)
            batch = few_shapes_batch(examples, announced_length, task.widths(length)[1] + 1, pinned=on_gpu)
            found = graphs(batch, announced_length).clone(), gradients(model)
            expected = graphs.plain_step(batch, announced_length).clone(), gradients(model)
            seen.add(found, expected)
    finally:
        logger.removeHandler(reasons)
    if graphs.usable:
        return seen, ""
    return seen, reasons.last or RANDOM


class Reasons(logging.Handler):
    """Keeps the last warning."""

    last = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.last = record.getMessage().partition(": ")[2][:200]
