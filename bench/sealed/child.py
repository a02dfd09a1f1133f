"""The sealed process: ``python -m bench.sealed.child FD``. It answers the judge's messages and decides nothing."""

import socket
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .channel import Channel
from .sandbox import limit_resources


def main(descriptor: int, serve: Callable[[Channel, dict[str, Any]], None]) -> None:
    """Receive an order, limit this process, and serve the order."""
    channel = Channel(socket.socket(fileno=descriptor))
    _, _, order = channel.receive()
    limit_resources(order["seconds"], order["gib"], order["sandboxed"])
    serve(channel, order)


def serve(channel: Channel, order: dict[str, Any]) -> None:
    """Answer messages until the other side closes."""
    from tasks import InputError

    try:
        served = ServedModel(order)
    except InputError as error:
        channel.send("refused", text=str(error))
        return
    channel.send("ready", served.parameters(), **served.declaration())
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
    """A model with the encoding that is judged."""

    def __init__(self, order: dict[str, Any]):
        import torch

        from bench.plugins.registry import get_encoding
        from bench.runs.run import Run
        from bench.runs.run_training import build_model
        from bench.suites.suite import Suite

        torch.set_num_threads(1)
        self.cls = get_encoding(order["reference"])
        suite = Suite.model_validate_json(order["suite"])
        self.model = build_model(Run(suite, order["task"], self.cls.info.name, order["seed"]))

    def declaration(self) -> dict[str, Any]:
        from dataclasses import asdict

        stage = self.cls.stage
        return {
            "ranking": self.cls.info.ranking,
            "random": self.cls.info.random,
            "stage": asdict(stage) if stage else None,
            "names": list(self.parameters()),
        }

    def parameters(self) -> dict[str, np.ndarray]:
        return {name: p.detach().numpy() for name, p in self.model.named_parameters()}

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        """Replace all weights."""
        import torch

        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.copy_(torch.from_numpy(arrays[name]))

    def gradients(self, arrays: dict[str, np.ndarray], values: dict[str, Any]) -> dict[str, np.ndarray]:
        """Loss of a training step, and the gradient of every parameter that has one."""
        import torch

        from bench.training.train import forward_backward
        from tasks import Examples

        self.model.train()
        self.model.in_stage = values["in_stage"]
        for parameter in self.model.parameters():
            parameter.grad = None
        generator = torch.Generator().manual_seed(values["generator"])
        loss = forward_backward(self.model, Examples(**arrays), values["announced_length"], generator)
        found = {name: p.grad.numpy() for name, p in self.model.named_parameters() if p.grad is not None}
        return found | {"loss": loss.numpy().reshape(1)}

    def logits(self, arrays: dict[str, np.ndarray], values: dict[str, Any]) -> np.ndarray:
        """Logits [B, V] of the token after the first ``sizes[b]`` of row b; of examples, those of all answer tokens."""
        import torch

        from bench.training.batches import Batch, as_batch
        from bench.training.layout import Layout
        from tasks import Examples

        if "answer_start" in arrays:
            batch = as_batch(Examples(**arrays))
        else:
            tokens, sizes = torch.from_numpy(arrays["tokens"]), torch.from_numpy(arrays["sizes"])
            rows = torch.arange(len(tokens)) * tokens.shape[1] + sizes - 1
            none = torch.zeros(0, dtype=torch.long)
            batch = Batch(tokens, Layout(tuple(tokens.shape)), rows, none, none)  # type: ignore[arg-type]
        self.model.eval()
        self.model.in_stage, self.model.before_stage = False, values["before_stage"]
        generator = torch.Generator().manual_seed(values["generator"])
        with torch.inference_mode():
            return self.model.logits(self.model.target_states(batch, values["announced_length"], generator)).numpy()


if __name__ == "__main__":
    main(int(sys.argv[1]), serve)
