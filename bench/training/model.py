"""The model: a pre-norm decoder-only transformer, the same for every encoding, which calls the encoding's hooks.

Shape legend: see ``batches``; H heads of width d, D = H·d features of the residual stream, V symbols of the vocabulary.
"""

from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from bench.encodings import At, Encoding, Setup, hooks
from bench.encodings.attention_kernel import FUSED
from bench.suites.parts import ModelSpec, Precision
from tasks import InputError

from .batches import Layout

MAX_CACHED_SHAPES = 64
"""Number of shapes whose position tables are cached."""

# torch would use cuDNN's attention for some encodings only, and with a bias it has given wrong numbers: NaN in the gradient of
# q at 64, 192, … tokens (pytorch/pytorch issue 196678), masks misread (191612).
torch.backends.cuda.enable_cudnn_sdp(False)
# fp32 means all 23 bits of the mantissa. TF32 has 10.
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


class Embedding(nn.Embedding):
    """``torch.nn.Embedding``, with a gradient on a GPU that is the same in every call."""

    def forward(self, ids: Int[Tensor, " N"]) -> Float[Tensor, "N D"]:
        return super().forward(ids) if ids.device.type == "cpu" else RepeatableEmbedding.apply(ids, self.weight)


class RepeatableEmbedding(torch.autograd.Function):
    """An embedding whose gradient is a product with one-hot rows, for a small vocabulary.

    On a GPU torch sorts the ids instead. That takes longer, and the sums of thousands of rows differ from call to call.
    """

    @staticmethod
    def forward(ctx, ids, weight):
        ctx.save_for_backward(ids)
        ctx.symbols = len(weight)
        return F.embedding(ids, weight)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        (ids,) = ctx.saved_tensors
        one_hot = ids == torch.arange(ctx.symbols, device=ids.device)[:, None]
        return None, one_hot.to(gradient.dtype) @ gradient


class Block(nn.Module):
    """x + attention(norm(x)), then x + MLP(norm(x)); no biases in the linear maps, no dropout."""

    def __init__(self, spec: ModelSpec):
        super().__init__()
        self.heads = spec.heads
        self.attention_norm = nn.LayerNorm(spec.width)
        self.qkv = nn.Linear(spec.width, 3 * spec.width, bias=False)
        self.out = nn.Linear(spec.width, spec.width, bias=False)
        self.mlp_norm = nn.LayerNorm(spec.width)
        self.up = nn.Linear(spec.width, spec.mlp_width, bias=False)
        self.down = nn.Linear(spec.mlp_width, spec.width, bias=False)

    def forward(
        self, x: Float[Tensor, "N D"], model: "Decoder", layout: Layout, at: At, rows: Int[Tensor, " M"] | None = None
    ) -> tuple[Float[Tensor, "N D"] | Float[Tensor, "M D"], Any]:
        """One layer; every hook sees the padded batch, and the rest works on packed rows.

        Arguments:
            rows: the rows to return, by default all. Everything after attention is computed for these only.

        Returns:
            The residual stream, and ``At.state`` of the next layer.
        """
        encoding = model.encoding
        if model.embeds:
            padded = layout.pad(x)
            embedded = encoding.embed(padded, at)
            if embedded is not padded:  # most change the first layer only
                x = layout.unpad(embedded)
        h = self.attention_norm(x)
        at = replace(at, source=cache(lambda: layout.pad(h)))
        q, k, v = layout.pad(self.qkv(h)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # views [B, H, T, d]
        q, k = encoding.rotate(q, k, at)
        bias = encoding.bias(q, k, at)
        # By default softmax(q·kᵀ/√d + bias)·v over keys j ≤ i, see ``bench.encodings.attention_kernel``.
        mixed = encoding.attend(q, k, v, bias, at).transpose(1, 2).flatten(2)
        x = (x if rows is None else x.index_select(0, rows)) + self.out(layout.unpad(mixed, rows))
        mlp = self.down(F.gelu(self.up(self.mlp_norm(x))))
        advances = model.advances and at.layer + 1 < encoding.setup.layers
        return x + mlp, encoding.advance(q, k, bias, layout.pad(mlp), at) if advances else at.state


class Decoder(nn.Module):
    """A decoder over a vocabulary of ``symbols``, with an encoding.

    Arguments:
        make_encoding: called last, so that the initial weights of the rest depend only on the seed and not on the encoding.
        shows_tokens: whether ``positions`` gets the tokens; otherwise zeros in their shape.
        precision: of training and evaluation, as in the recipe; see ``bench.training.train.autocast``.
    """

    def __init__(
        self,
        spec: ModelSpec,
        symbols: int,
        make_encoding: Callable[[], Encoding],
        shows_tokens: bool = False,
        precision: Precision = "fp32 on cpu, bf16 autocast on cuda",
    ):
        super().__init__()
        self.causal, self.shows_tokens, self.precision = True, shows_tokens, precision
        self.embedding = Embedding(symbols, spec.width)
        self.blocks = nn.ModuleList(Block(spec) for _ in range(spec.layers))
        self.norm = nn.LayerNorm(spec.width)
        self.head = nn.Linear(spec.width, symbols, bias=False)
        self.init(spec)
        self.encoding = make_encoding()
        used = hooks(type(self.encoding))
        self.embeds, self.advances = "embed" in used, "advance" in used  # whether it overrides these hooks
        self.in_stage = False
        """Whether the present training step is one of an extra stage."""
        # Without parameters, randomness and its own position ids, `prepare` depends only on the shape.
        parameters = any(True for _ in self.encoding.parameters())
        self.cacheable = not (parameters or self.encoding.info.random or "positions" in used)
        self.cache: dict[Hashable, At] = {}

    def init(self, spec: ModelSpec) -> None:
        """Embeddings are N(0, 1), matrices N(0, 1/inputs); the two that write to the stream are scaled by 1/√(2·layers)."""
        nn.init.normal_(self.embedding.weight)
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2 and name != "embedding.weight":
                scale = (2 * spec.layers) ** -0.5 if name.endswith(("out.weight", "down.weight")) else 1.0
                nn.init.normal_(parameter, std=scale * parameter.shape[1] ** -0.5)

    def forward(
        self, tokens: Int[Tensor, "B T"], announced_length: int, generator: torch.Generator | None = None
    ) -> Float[Tensor, "B T D"]:
        """Hidden states after the last norm, the input of ``logits``.

        Arguments:
            announced_length: see ``At.announced_length``, in tokens.
            generator: the only source of randomness of encodings that draw random numbers.
        """
        layout = Layout((tokens.shape[0], tokens.shape[1]))
        return self.packed_states(tokens, layout, announced_length, generator).view(*tokens.shape, -1)

    def packed_states(
        self,
        tokens: Int[Tensor, "B T"],
        layout: Layout,
        announced_length: int,
        generator: torch.Generator | None = None,
        rows: Int[Tensor, " M"] | None = None,
    ) -> Float[Tensor, "N D"] | Float[Tensor, "M D"]:
        """Hidden states of all packed rows, or of the given ones."""
        at, state = self.context(tokens, announced_length, generator), None
        cells = tokens.flatten()
        x = self.embedding(cells if layout.cell_of is None else cells[layout.cell_of])
        for layer, block in enumerate(self.blocks):
            at = replace(at, layer=layer, state=state)
            x, state = block(x, self, layout, at, rows if layer == len(self.blocks) - 1 else None)
        return self.norm(x)

    @property
    def after_stage(self) -> bool:
        """See ``At.after_stage``: an encoding with a stage is always tested after it."""
        return self.in_stage or (self.encoding.stage is not None and not self.training)

    def context(self, tokens: Int[Tensor, "B T"], announced_length: int, generator: torch.Generator | None) -> At:
        """Position ids and the result of ``prepare``, cached where possible."""
        key = (tokens.shape[1], announced_length, self.after_stage, tokens.device, torch.is_inference_mode_enabled())
        if self.cacheable and key in self.cache:
            return replace(self.cache[key], generator=generator)
        at = At(announced_length, self.after_stage, generator=generator, causal=self.causal)
        at = replace(at, ids=self.encoding.positions(tokens if self.shows_tokens else torch.zeros_like(tokens), at))
        at = replace(at, shared=self.encoding.prepare(at))
        if self.cacheable:
            self.cache[key] = at
            if len(self.cache) > MAX_CACHED_SHAPES:
                del self.cache[next(iter(self.cache))]
        return at

    def logits(self, hidden: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows V"]:
        """Logits of the next token."""
        return self.head(hidden)


def build_decoder(
    spec: ModelSpec,
    encoding: type[Encoding],
    setup: Setup,
    seed: int,
    precision: Precision = "fp32 on cpu, bf16 autocast on cuda",
) -> Decoder:
    """A model with initial weights that depend only on the arguments, not on the global random state.

    Raises:
        InputError: the encoding's ``make`` returns an instance of another class, which may declare something else.
    """
    aware = encoding.info.ranking == "task-aware"  # as the class says, where results look it up, and before its code runs
    shown = setup if aware else replace(setup, symbols=(), roles=())

    def make() -> Encoding:
        made = encoding.make(shown)
        if type(made) is not encoding:
            raise InputError(f"`make` of {encoding.info.name} returns a {type(made).__name__}; expected a {encoding.__name__}")
        return made

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Decoder(spec, len(setup.symbols), make, shows_tokens=aware, precision=precision)


def count_flops(model: Decoder) -> int:
    """Floating-point operations of the matrix products of a forward pass over one sequence of the training length."""
    count = model.encoding.setup.train_tokens
    fused = {FUSED: lambda q, k, v, *args, out_shape=None, **options: sdpa_flop_count(q, k, v)}  # torch does not know it
    with torch.no_grad(), FlopCounterMode(display=False, custom_mapping=fused) as counter:
        model(torch.zeros(1, count, dtype=torch.long), count, torch.Generator().manual_seed(0))
    return counter.get_total_flops()


def count_parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())
