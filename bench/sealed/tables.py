"""The hooks of an encoding that needs positions only, as tables: the judge runs its model, and its code sees no content.

A table of ``rotate`` holds what becomes of each unit vector, so it describes every linear map.
"""

import copy
import itertools
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from bench.encodings import At, Encoding, hooks
from bench.training.model import Decoder

Tables = list[dict[str, list[Tensor]]]
"""Layer → hook → its tables: [1, T, D] to add, [d, H, T, e] for q and for k, or [1, H, T, T]."""


class FromTables(Encoding):
    """The encoding whose tables are ``at.shared``."""

    def embed(self, x: Float[Tensor, "B T D"], at: At) -> Float[Tensor, "B T D"]:
        tables = at.shared[at.layer].get("embed")
        return x + tables[0] if tables else x

    def rotate(self, q: Float[Tensor, "B H T d"], k: Float[Tensor, "B H T d"], at: At) -> tuple[Tensor, Tensor]:
        if tables := at.shared[at.layer].get("rotate"):
            q, k = (torch.einsum("bhtd,dhte->bhte", *pair) for pair in zip((q, k), tables, strict=True))
        return q, k

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "1 H T T"] | None:
        tables = at.shared[at.layer].get("bias")
        return tables[0] if tables else None


def tables_of(encoding: Encoding, at: At) -> Tables:
    """The tables of all layers, given the context after ``prepare``, which has no ``h``."""
    setup, used, found = encoding.setup, hooks(type(encoding)), []
    count, heads, width = at.positions.shape[-1], setup.heads, setup.head_width
    units = torch.eye(width)[:, None, None].expand(-1, heads, count, -1)
    for layer in range(setup.layers):
        here, tables = replace(at, layer=layer), dict[str, list[Tensor]]()
        if "embed" in used:
            tables["embed"] = [encoding.embed(torch.zeros(1, count, setup.width), here)]
        if "rotate" in used:
            tables["rotate"] = list(encoding.rotate(units, units, here))
        if "bias" in used:
            zeros = torch.zeros(1, heads, count, width)
            bias = encoding.bias(*encoding.rotate(zeros, zeros, here), here)
            tables["bias"] = [torch.zeros(1) if bias is None else bias]
            tables["bias"][0] = tables["bias"][0].expand(1, heads, count, count)
        found.append(tables)
    return found


@torch.no_grad()
def position_tables(model: Decoder) -> Tables | None:
    """Tables, if they do what the hooks do up to rounding: in training and tests, at L and L′, on random content."""
    encoding, setup = model.encoding, model.encoding.setup
    if encoding.info.ranking == "task-aware" or {"attend", "advance"} & set(hooks(type(encoding))):
        return None
    told, draw, before = FromTables(setup), torch.Generator().manual_seed(0), copy.deepcopy(encoding.state_dict())
    try:
        for parameter in encoding.parameters():  # many begin at zero
            parameter.add_(torch.rand(parameter.shape, generator=draw), alpha=0.1)
        for training, count in itertools.product((True, False), {setup.train_tokens, setup.longest_tokens}):
            model.train(training)
            at = model.context(torch.zeros(1, count, dtype=torch.long), count, torch.Generator().manual_seed(0))
            if at.positions.ndim > 1:  # ids of each sequence
                return None
            read = replace(at, shared=tables_of(encoding, at))
            x = torch.randn(2, count, setup.width, generator=draw)
            q, k = torch.randn(2, 2, setup.heads, count, setup.head_width, generator=draw)
            for layer in range(setup.layers):
                expected = outputs(encoding, x, q, k, replace(at, layer=layer))
                for one, other in zip(expected, outputs(told, x, q, k, replace(read, layer=layer)), strict=True):
                    torch.testing.assert_close(*torch.broadcast_tensors(one, other), atol=1e-4, rtol=1e-4, equal_nan=True)
    except Exception:  # the hooks ask for content, or give something else
        return None
    finally:
        encoding.load_state_dict(before)
    return read.shared


def outputs(encoding: Encoding, x: Tensor, q: Tensor, k: Tensor, at: At) -> list[Tensor]:
    """What the hooks return; zero for no bias."""
    q, k = encoding.rotate(q, k, at)
    bias = encoding.bias(q, k, at)
    return [encoding.embed(x, at), q, k, torch.zeros(1) if bias is None else bias]
