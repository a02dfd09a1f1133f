"""A plain decoder with PyTorch's FlexAttention, for ALiBi and T5's bias: what a GPU user writes without a library."""

import torch
from common import Rival
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from bench.encodings.t5 import buckets
from bench.suites.suite import Suite


class FlexDecoder(nn.Module):
    """Decoder for sequences of ``width`` tokens, whose bias is a ``score_mod``."""

    def __init__(self, suite: Suite, symbols: int, encoding: str, width: int, device: torch.device):
        super().__init__()
        spec = suite.model
        self.heads, d = spec.heads, spec.width
        self.embedding, self.head = nn.Embedding(symbols, d), nn.Linear(d, symbols, bias=False)
        shapes = {"qkv": (d, 3 * d), "out": (d, d), "up": (d, spec.mlp_width), "down": (spec.mlp_width, d)}
        for name, shape in shapes.items():
            self.add_module(name, nn.ModuleList(nn.Linear(*shape, bias=False) for _ in range(spec.layers)))
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(2 * spec.layers + 1))
        self.table = nn.Parameter(torch.zeros(32, spec.heads)) if encoding == "t5" else None
        self.register_buffer("slopes", 2.0 ** (-8.0 * torch.arange(1, spec.heads + 1) / spec.heads))
        self.register_buffer("bucket", buckets(torch.arange(width), 32, 128))
        self.mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, width, width, device=device.type)

    def forward(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        slopes, bucket, table = self.slopes, self.bucket, self.table

        def bias(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return score - slopes[h] * (i - j) if table is None else score + table[bucket[(i - j).clamp(min=0)], h]

        x = self.embedding(ids)
        for n, (qkv, out, up, down) in enumerate(zip(self.qkv, self.out, self.up, self.down, strict=True)):
            q, k, v = qkv(self.norms[2 * n](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            found = flex_attention(q, k, v, score_mod=bias, block_mask=self.mask)
            x = x + out(found.transpose(1, 2).flatten(2))
            x = x + down(F.gelu(up(self.norms[2 * n + 1](x))))
        return self.head(self.norms[-1](x))


def flex_model(suite: Suite, encoding: str, device: torch.device) -> Rival:
    """The model for the suite's task, for examples padded to the width of length L."""
    task, length = suite.make_task(suite.tasks[0].task), suite.tasks[0].train_length
    module = FlexDecoder(suite, len(task.vocabulary), encoding, task.tokens(length) - 1, device)
    return "FlexAttention", encoding, module
