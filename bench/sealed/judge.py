"""The judge's side: weights, optimizer and data are here; a sealed process computes losses, gradients and logits."""

import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from bench.encodings import Stage
from bench.encodings.nope import NoPE
from bench.result import RANKING_CLASSES, Parameters
from bench.runs.run import Run
from bench.runs.run_training import encoding_setup
from bench.training.model import build_decoder
from bench.training.train import derive_seed
from tasks import Examples

from .channel import Channel, ChannelError
from .sandbox import start_sandboxed


class SealedError(Exception):
    """The sealed process broke the protocol, or failed; one line."""


@dataclass(frozen=True)
class Limits:
    """What a sealed process may use."""

    seconds: float = 3600.0
    """Wall time of a process, and its processor time."""
    gib: float = 8.0
    """Memory."""


@dataclass(frozen=True)
class Code:
    """The code that is judged."""

    reference: str
    """As for ``lprime run --encoding``."""
    readable: Sequence[Path] = ()
    """Its files and folders."""
    path: Sequence[str] = ()
    """Folders to search for modules before all others."""
    unsafe: bool = False
    """Run without a sandbox."""
    limits: Limits = field(default_factory=Limits)


class SealedModel:
    """A model whose weights are here and whose forward and backward passes are in a sealed process.

    Looks like a ``Decoder`` to ``FlatAdamW`` and ``train``. The initial weights of everything but the encoding are computed
    here; the process sends those of the encoding, which it may choose.

    Raises:
        SealedError: the process does not start, or declares something impossible.
        InputError: there is no sandbox on this machine.
    """

    def __init__(self, run: Run, code: Code):
        self.code, self.in_stage = code, False
        ours, theirs = socket.socketpair()
        with theirs:
            descriptor = theirs.fileno()
            arguments = ["bench.sealed.child", str(descriptor)]
            self.process = start_sandboxed(arguments, code.readable, code.path, [descriptor], code.unsafe)
        self.channel, self.deadline = Channel(ours), time.monotonic() + code.limits.seconds
        order: dict[str, Any] = {
            "reference": code.reference,
            "suite": run.suite.model_dump_json(),
            "task": run.task,
            "seed": run.seed,
        }
        self.send("order", **order, seconds=code.limits.seconds, gib=code.limits.gib)
        arrays, self.declared = self.receive("ready")
        setup = encoding_setup(run)
        bare = build_decoder(run.suite.model, NoPE, setup, derive_seed("init", run.seed))
        weights = dict(bare.named_parameters())
        extra = {name: nn.Parameter(torch.from_numpy(a.copy())) for name, a in arrays.items() if name not in weights}
        if wrong := [n for n, p in extra.items() if not n.startswith("encoding.") or p.dtype != torch.float32]:
            raise SealedError(f"unexpected parameter {wrong[0]!r:.80}; expected float32 parameters of the encoding")
        if missing := [n for n, p in weights.items() if n not in arrays or arrays[n].shape != tuple(p.shape)]:
            raise SealedError(f"the model has no parameter {missing[0]} of the expected shape")
        self.weights: dict[str, nn.Parameter] = weights | extra
        self.encoding = SimpleNamespace(stage=self.stage(), info=SimpleNamespace(random=self.declared["random"] is True))
        self.embedding = SimpleNamespace(weight=self.weights["embedding.weight"])

    def stage(self) -> Stage | None:
        """The declared extra stage, which needs its ranking class."""
        declared, ranking = self.declared.get("stage"), self.declared.get("ranking")
        if ranking not in RANKING_CLASSES:
            raise SealedError(f"unknown ranking class {ranking!r:.40}")
        if declared is None:
            return None
        stage = Stage(**declared)
        if (stage.longer and ranking != "longer") or not 0 < stage.share <= Stage().share:
            raise SealedError(f"a stage of {stage.share:g} of the steps needs ranking 'longer' and at most {Stage().share:g}")
        return stage

    def named_parameters(self) -> list[tuple[str, nn.Parameter]]:
        return list(self.weights.items())

    def parameters(self) -> list[nn.Parameter]:
        return list(self.weights.values())

    def count(self) -> Parameters:
        extra = sum(p.numel() for name, p in self.weights.items() if name.startswith("encoding."))
        return Parameters(model=sum(p.numel() for p in self.parameters()), encoding=extra)

    def train(self) -> None:
        """Nothing: the mode is part of each request."""

    def push_weights(self, weights: Mapping[str, Tensor] | None = None) -> None:
        """Send weights, by default the present ones."""
        self.send("weights", {name: p.detach().numpy() for name, p in (weights or self.weights).items()})

    def gradients(self, _model: Any, examples: Examples, announced_length: int, generator: torch.Generator) -> Tensor:
        """Set the gradients of a training step and return its loss, as ``forward_backward``."""
        self.push_weights()
        values = {"announced_length": announced_length, "generator": generator.initial_seed(), "in_stage": self.in_stage}
        self.send("gradients", vars(examples), **values)
        arrays, _ = self.receive("gradients")
        loss = arrays.pop("loss", np.zeros(0))
        if loss.shape != (1,) or any(
            n not in self.weights or a.shape != tuple(self.weights[n].shape) for n, a in arrays.items()
        ):
            raise SealedError("gradients do not have the shapes of the parameters")
        for name, parameter in self.weights.items():
            parameter.grad = torch.from_numpy(arrays[name].astype(np.float32)) if name in arrays else None
        return torch.tensor(float(loss[0]))

    def logits(
        self, tokens: np.ndarray, sizes: np.ndarray, announced_length: int, generator: int, symbols: int
    ) -> Float[Tensor, "B V"]:
        """Logits of the token after the first ``sizes[b]`` of each row."""
        self.send("logits", {"tokens": tokens, "sizes": sizes}, announced_length=announced_length, generator=generator)
        arrays, _ = self.receive("logits")
        found = arrays.get("logits", np.zeros(0))
        if found.shape != (len(tokens), symbols):
            raise SealedError(f"logits have shape {found.shape}, expected {(len(tokens), symbols)}")
        return torch.from_numpy(found.astype(np.float32))

    def send(self, kind: str, arrays: Mapping[str, np.ndarray] | None = None, **values: Any) -> None:
        try:
            self.channel.send(kind, arrays, **values)
        except OSError:
            raise SealedError(self.reason("its process ended")) from None

    def receive(self, expected: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        try:
            kind, arrays, values = self.channel.receive(self.deadline - time.monotonic())
        except ChannelError as error:
            late = time.monotonic() >= self.deadline
            limit = f"still running after {self.code.limits.seconds:.0f} s, the limit"
            raise SealedError(limit if late else self.reason(str(error))) from None
        if kind != expected:
            raise SealedError(" ".join(str(values.get("text", f"answered {kind!r:.40} instead of {expected}")).split())[:500])
        return arrays, values

    def reason(self, fault: str) -> str:
        """The fault, with the last line that the process wrote to stderr if it has ended."""
        try:
            _, text = self.process.communicate(timeout=2)
        except subprocess.TimeoutExpired:
            return fault
        last = text.decode(errors="replace").strip().splitlines()[-1:]
        return f"{fault} (exit code {self.process.returncode}{': ' + last[0][:300] if last else ''})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.connection.close()
        self.process.kill()  # in a sandbox, everything that it started ends with it
        self.process.wait()
        if self.process.stderr:
            self.process.stderr.close()
