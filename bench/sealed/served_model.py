"""The model in a sealed process: it answers the judge's messages and decides nothing."""

from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from bench.plugins.registry import get_encoding
from bench.runs.run import Run
from bench.runs.run_training import build_model
from bench.suites.suite import Suite
from bench.training.batches import Batch, Layout
from bench.training.train import forward_backward
from tasks import Examples, InputError

from .process import Channel


def serve(channel: Channel, order: dict[str, Any]) -> None:
    """Answer messages until the other side closes."""
    torch.set_num_threads(1)
    try:
        served = ServedModel(order)
    except InputError as error:
        channel.send("refused", text=str(error))
        return
    own = {name: p.detach().numpy() for name, p in served.model.named_parameters() if name.startswith("encoding.")}
    info, stage = served.cls.info, served.cls.stage
    declared = {"name": info.name, "ranking": info.ranking, "random": info.random, "stage": asdict(stage) if stage else None}
    channel.send("ready", own, parameters=list(own), **declared)
    while True:
        kind, arrays, values = channel.receive()
        try:
            if kind == "weights":
                served.load(arrays)
            elif kind == "gradients":
                channel.send("gradients", served.gradients(arrays, values))
            else:
                channel.send("logits", {"logits": served.logits(arrays, values)})
        except Exception as error:
            channel.send("refused", text=f"{type(error).__name__}: {error}"[:500])
            return


class ServedModel:
    """A model with the encoding that is judged.

    Arguments:
        order: reference of the encoding; suite (as JSON), task and seed of the run.
    """

    def __init__(self, order: dict[str, Any]):
        self.cls = get_encoding(order["reference"])
        suite = Suite.model_validate_json(order["suite"])
        self.model = build_model(Run(suite, order["task"], self.cls.info.name, order["seed"]))

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        """Replace all weights."""
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.copy_(torch.from_numpy(arrays[name]))

    def gradients(self, arrays: dict[str, np.ndarray], values: dict[str, Any]) -> dict[str, np.ndarray]:
        """Loss of a training step, and the gradient of every parameter that has one."""
        self.model.train()
        self.model.in_stage = values["in_stage"]
        self.model.zero_grad()
        generator = torch.Generator().manual_seed(values["generator"])
        loss = forward_backward(self.model, Examples(**arrays), values["announced_length"], generator)
        found = {name: p.grad.numpy() for name, p in self.model.named_parameters() if p.grad is not None}
        return found | {"loss": loss.numpy().reshape(1)}

    def logits(self, arrays: dict[str, np.ndarray], values: dict[str, Any]) -> np.ndarray:
        """Logits [M, V] of the tokens that follow M cells of a padded batch of tokens [B, T]."""
        tokens, cells = torch.from_numpy(arrays["tokens"]), torch.from_numpy(arrays["cells"])
        none = torch.zeros(0, dtype=torch.long)
        batch = Batch(tokens, Layout((tokens.shape[0], tokens.shape[1])), cells, none, none)
        self.model.eval()
        self.model.in_stage, self.model.before_stage = values["in_stage"], True
        generator = torch.Generator().manual_seed(values["generator"])
        with torch.inference_mode():
            return self.model.logits(self.model.target_states(batch, values["announced_length"], generator)).numpy()
