"""The judge's side: weights, optimizer and data are here; a sealed process computes losses, gradients and logits."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

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

from .process import Code, SealedError, SealedProcess

KEPT = 8
"""Requests for logits that are kept, each with its answer, to be made again in another process."""


class SealedModel(SealedProcess):
    """A model whose weights are here and whose forward and backward passes are in a sealed process.

    Looks like a ``Decoder`` to ``AdamW`` and ``train``. The initial weights of everything but the encoding are computed
    here; the process sends those of the encoding, which it may choose.

    Raises:
        SealedError: the process does not start, or declares something impossible.
        InputError: there is no sandbox on this machine.
    """

    def __init__(self, run: Run, code: Code):
        super().__init__("bench.sealed.child", code, suite=run.suite.model_dump_json(), task=run.task, seed=run.seed)
        self.in_stage = self.before_stage = False
        self.asked, self.kept = 0, list[tuple[dict[str, np.ndarray], dict[str, Any], Tensor]]()
        self.choice = np.random.default_rng()
        try:
            self.initial, self.declared = self.receive("ready")
            self.take(run, self.initial)
        except BaseException:
            self.__exit__()
            raise

    def take(self, run: Run, arrays: dict[str, np.ndarray]) -> None:
        """Build the weights from the process's parameters, of which only those of the encoding count."""
        setup = encoding_setup(run.suite, run.task)
        bare = build_decoder(run.suite.model, NoPE, setup, derive_seed("init", run.seed))
        weights = dict(bare.named_parameters())
        extra = {name: array for name, array in arrays.items() if name not in weights}
        if wrong := [n for n, a in extra.items() if not n.startswith("encoding.") or a.dtype != np.float32]:
            raise SealedError(f"unexpected parameter {wrong[0]!r:.80}; expected float32 parameters of the encoding")
        if missing := [n for n, p in weights.items() if n not in arrays or arrays[n].shape != tuple(p.shape)]:
            raise SealedError(f"the model has no parameter {missing[0]} of the expected shape")
        names = self.declared.get("names")  # arrays arrive in any order, and the optimizer's sums depend on it
        if not isinstance(names, list) or sorted(map(str, names)) != sorted(arrays):
            raise SealedError("the declared names are not those of the parameters")
        every = weights | {name: nn.Parameter(torch.from_numpy(array.copy())) for name, array in extra.items()}
        self.weights: dict[str, nn.Parameter] = {name: every[name] for name in names}
        self.encoding = SimpleNamespace(stage=self.stage(), info=SimpleNamespace(random=self.declared.get("random") is True))
        self.embedding = SimpleNamespace(weight=self.weights["embedding.weight"])

    def stage(self) -> Stage | None:
        """The declared extra stage, by the same rules as in ``lprime check``."""
        declared, ranking = self.declared.get("stage"), self.declared.get("ranking")
        if ranking not in RANKING_CLASSES:
            raise SealedError(f"unknown ranking class {ranking!r:.40}")
        if self.code.ranking not in (None, ranking):
            raise SealedError(f"the code declares ranking {ranking!r}, and its submission {self.code.ranking!r}")
        if declared is None:
            return None
        try:
            stage = Stage(**declared)
            faults = list(stage.faults(ranking, plugin=bool(self.code.readable)))
        except TypeError:
            raise SealedError(f"declares the stage {declared!r:.80}; expected the fields of Stage") from None
        if faults:
            raise SealedError("; ".join(faults))
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

    def gradients(self, examples: Examples, announced_length: int, generator: torch.Generator) -> Tensor:
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
        arrays, values = {"tokens": tokens, "sizes": sizes}, {"announced_length": announced_length, "generator": generator}
        found = self.ask(arrays, values, (len(tokens), symbols))
        self.asked += 1
        if len(self.kept) < KEPT:
            self.kept.append((arrays, values, found))
        elif (place := int(self.choice.integers(self.asked))) < KEPT:
            self.kept[place] = arrays, values, found
        return found

    def teacher_forced(self, examples: Examples, announced_length: int, generator: int, symbols: int) -> Float[Tensor, "M V"]:
        """Logits of all answer tokens, computed with the answers in view, as in any other run."""
        values = {"announced_length": announced_length, "generator": generator}
        return self.ask(vars(examples), values, (int(examples.targets.sum()), symbols))

    def ask(self, arrays: Mapping[str, np.ndarray], values: Mapping[str, Any], shape: tuple[int, ...]) -> Float[Tensor, "M V"]:
        """Logits of the given shape, by one request."""
        self.send("logits", arrays, before_stage=self.before_stage, **values)
        found = self.receive("logits")[0].get("logits", np.zeros(0))
        if found.shape != shape:
            raise SealedError(f"logits have shape {found.shape}, expected {shape}")
        return torch.from_numpy(found.astype(np.float32))
