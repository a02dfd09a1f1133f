"""The layers of a model, or the tables of its encoding, in a sealed process that has no task, seed, embedding or head."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from pydantic import TypeAdapter
from torch import Tensor

from bench.encodings import Encoding, Setup
from bench.plugins.record import encoding_record
from bench.plugins.registry import get_encoding
from bench.suites.parts import ModelSpec
from bench.training.batches import Layout
from bench.training.model import Decoder, count_flops
from tasks import InputError

from .process import Channel
from .tables import position_tables, tables_of


def serve(channel: Channel, order: dict[str, Any]) -> None:
    """Answer messages until the other side closes."""
    torch.set_num_threads(1)
    try:
        cls, (_, _, sizes) = get_encoding(order["reference"]), channel.receive()
        served = ServedModel(cls, sizes)
        channel.send("ready", [p.detach().numpy() for p in served.model.encoding.parameters()], **served.declared)
        answers: dict[str, Callable] = {
            "weights": served.load,
            "states": served.states,
            "tables": served.tables,
            "gradients": served.gradients,
        }
        while True:
            kind, arrays, values = channel.receive()
            if (answer := answers[kind](arrays, **values)) is not None:
                channel.send(kind, answer)
    except InputError as error:
        channel.send("refused", text=str(error))
    except Exception as error:
        channel.send("refused", text=f"{type(error).__name__}: {error}"[:500])


class ServedModel:
    """A decoder with the encoding that is judged, without embedding and head.

    Arguments:
        sizes: the specification of the model, the setup, the state of torch's generator in which the encoding is made, and
            whether it may give tables.
    """

    def __init__(self, cls: type[Encoding], sizes: dict[str, Any]):
        setup = TypeAdapter(Setup).validate_python(sizes["setup"])

        def make() -> Encoding:
            torch.set_rng_state(torch.tensor(sizes["random_state"], dtype=torch.uint8))
            return cls.make(setup)

        self.model = Decoder(ModelSpec.model_validate(sizes["model"]), 1, make, shows_tokens=True)
        flops = count_flops(self.model)
        del self.model.embedding, self.model.head  # which are the judge's
        tables = position_tables(self.model) if sizes["tables"] else None
        layer = tables[0] if tables else {}
        self.declared: dict[str, Any] = {"encoding": encoding_record(cls).model_dump(), "random": cls.info.random}
        self.declared |= {"stage": cls.stage and asdict(cls.stage), "tables": list(layer) if tables else None}
        self.declared |= {"rotated": layer["rotate"][0].shape[-1] if "rotate" in layer else setup.head_width, "flops": flops}
        self.parameters = list((self.model.encoding if tables else self.model).parameters())

    def load(self, arrays: list[np.ndarray]) -> None:
        """Replace all weights."""
        with torch.no_grad():
            for parameter, array in zip(self.parameters, arrays, strict=True):
                parameter.copy_(torch.from_numpy(array))

    def states(self, arrays: list[np.ndarray], **how: Any) -> list[np.ndarray]:
        """Hidden states of the rows that the judge asks for."""
        x, tokens, rows, *cells = map(torch.from_numpy, arrays)
        layout = Layout((tokens.shape[0], tokens.shape[1]), *cells)
        self.model.embedding = lambda ids: x  # type: ignore[assignment]

        def compute(announced_length: int, generator: torch.Generator) -> list[Tensor]:
            return [self.model.packed_states(tokens, layout, announced_length, generator, rows)]

        return self.computed(compute, [x, *self.parameters], **how)

    def tables(self, arrays: list[np.ndarray], count: int, **how: Any) -> list[np.ndarray]:
        """The tables of all layers, for ``count`` tokens."""

        def compute(announced_length: int, generator: torch.Generator) -> list[Tensor]:
            at = self.model.context(torch.zeros(1, count, dtype=torch.long), announced_length, generator)
            found = tables_of(self.model.encoding, at)
            return [table for layer in found for tables in layer.values() for table in tables]

        return self.computed(compute, self.parameters, **how)

    def computed(
        self,
        compute: Callable[[int, torch.Generator], list[Tensor]],
        inputs: Sequence[Tensor],
        announced_length: int,
        seed: int,
        training: bool,
        after_stage: bool,
    ) -> list[np.ndarray]:
        """What the judge asks for, of which ``gradients`` may follow."""
        self.model.train(training)
        self.model.in_stage = after_stage
        self.inputs = [tensor.requires_grad_(training) for tensor in inputs]
        with torch.inference_mode(not training):
            self.found = compute(announced_length, torch.Generator().manual_seed(seed))
        return [tensor.detach().float().numpy() for tensor in self.found]

    def gradients(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        """Gradients of the inputs (rows and weights, or weights), from the gradients of what was computed."""
        self.model.zero_grad()
        pairs = [pair for pair in zip(self.found, map(torch.from_numpy, arrays), strict=True) if pair[0].requires_grad]
        torch.autograd.backward([one for one, _ in pairs], [gradient for _, gradient in pairs])
        return [(torch.zeros_like(tensor) if tensor.grad is None else tensor.grad).numpy() for tensor in self.inputs]
