"""The layers of a model in a sealed process: it answers the judge's messages, and has no task, seed, embedding or head."""

from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from pydantic import TypeAdapter

from bench.encodings import Encoding, Setup
from bench.plugins.record import encoding_record
from bench.plugins.registry import get_encoding
from bench.suites.parts import ModelSpec
from bench.training.batches import Layout
from bench.training.model import Decoder
from tasks import InputError

from .process import Channel


def serve(channel: Channel, order: dict[str, Any]) -> None:
    """Answer messages until the other side closes."""
    torch.set_num_threads(1)
    try:
        cls, (_, _, sizes) = get_encoding(order["reference"]), channel.receive()
        served = ServedModel(cls, sizes)
        own = [p.detach().numpy() for p in served.model.encoding.parameters()]
        record, stage = encoding_record(cls).model_dump(), cls.stage and asdict(cls.stage)
        channel.send("ready", own, encoding=record, random=cls.info.random, stage=stage)
        while True:
            kind, arrays, values = channel.receive()
            if kind == "weights":
                served.load(arrays)
            else:
                channel.send(kind, served.states(arrays, **values) if kind == "states" else served.gradients(arrays))
    except InputError as error:
        channel.send("refused", text=str(error))
    except Exception as error:
        channel.send("refused", text=f"{type(error).__name__}: {error}"[:500])


class ServedModel:
    """A decoder with the encoding that is judged, without embedding and head.

    Arguments:
        sizes: the specification of the model, the setup, and the state of torch's generator in which the encoding is made.
    """

    def __init__(self, cls: type[Encoding], sizes: dict[str, Any]):
        setup = TypeAdapter(Setup).validate_python(sizes["setup"])

        def make() -> Encoding:
            torch.set_rng_state(torch.tensor(sizes["random_state"], dtype=torch.uint8))
            return cls.make(setup)

        self.model = Decoder(ModelSpec.model_validate(sizes["model"]), 1, make, shows_tokens=True)
        del self.model.embedding, self.model.head  # which are the judge's
        self.parameters = list(self.model.parameters())

    def load(self, arrays: list[np.ndarray]) -> None:
        """Replace all weights."""
        with torch.no_grad():
            for parameter, array in zip(self.parameters, arrays, strict=True):
                parameter.copy_(torch.from_numpy(array))

    def states(
        self, arrays: list[np.ndarray], announced_length: int, seed: int, training: bool, after_stage: bool
    ) -> list[np.ndarray]:
        """Hidden states of the rows that the judge asks for."""
        x, tokens, rows, *cells = map(torch.from_numpy, arrays)
        layout = Layout((tokens.shape[0], tokens.shape[1]), *cells)
        self.model.train(training)
        self.model.in_stage = after_stage
        with torch.inference_mode(not training):
            self.x = x.requires_grad_(training)
            self.model.embedding = lambda ids: self.x  # type: ignore[assignment]
            generator = torch.Generator().manual_seed(seed)
            self.found = self.model.packed_states(tokens, layout, announced_length, generator, rows)
        return [self.found.detach().numpy()]

    def gradients(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        """Gradients of the given rows and of the weights, from the gradient of the states."""
        self.model.zero_grad()
        self.found.backward(torch.from_numpy(arrays[0]))
        tensors = (self.x, *self.parameters)
        return [(torch.zeros_like(tensor) if tensor.grad is None else tensor.grad).numpy() for tensor in tensors]
