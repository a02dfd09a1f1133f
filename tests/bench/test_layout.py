"""Packed rows, fused attention and cached tables: each against the plain computation."""

import math

import pytest
import torch
from helpers import NAMES, random_tokens, tiny_model
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

import tasks
from bench import encodings
from bench.encodings import attention_kernel
from bench.encodings.attention_kernel import ALIGNED, attention, efficient_attention, efficient_takes
from bench.training.batches import as_batch

TASK = tasks.get("copying", "repeat", 10)


def leaves(*shapes: tuple[int, ...], seed: int = 0) -> list[Tensor]:
    source = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=source, dtype=torch.float64).requires_grad_() for shape in shapes]


# --- attention


def masked(bias: Tensor) -> Tensor:
    return bias.masked_fill(torch.ones(bias.shape[-2:], dtype=torch.bool).triu(1), -math.inf)


@given(
    b=st.integers(1, 3), h=st.integers(1, 3), t=st.integers(1, 72), e=st.integers(1, 6), d=st.integers(1, 5),
    kind=st.sampled_from(["none", "open", "T T", "H T T", "B 1 T T", "B H T T", "1 H 1 T", "B H T 1"]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_attention_and_its_gradients_equal_torchs(b, h, t, e, d, kind):
    q, k, v = leaves((b, h, t, e), (b, h, t, e), (b, h, t, d), seed=t)
    sizes = {"B": b, "H": h, "T": t, "1": 1}
    inputs, bias = [q, k, v], None
    if kind not in ("none", "open"):
        (raw,) = leaves(tuple(sizes[s] for s in kind.split()), seed=1)
        inputs.append(raw)
        bias = raw
    weights = torch.randn(b, h, t, d, dtype=torch.float64)
    found = attention(q, k, v, bias, 0.7, kind != "open")
    mask = None if bias is None else masked(bias.expand(*bias.shape[:-2], t, t))
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=kind == "none", scale=0.7)
    torch.testing.assert_close(found, expected)
    gradients = (torch.autograd.grad((out * weights).sum(), inputs, retain_graph=True) for out in (found, expected))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("shape", ["T T", "H T T", "B 1 T T", "B H T T", "1 H 1 T", "H T 1", "last axis first"])
@pytest.mark.parametrize("count", [65, 130])
def test_fused_attention_with_a_bias_equals_that_with_a_masked_bias_bit_for_bit(shape, count):
    q, k, v = (x.float().detach().requires_grad_() for x in leaves(*[(2, 3, count, 8)] * 3))
    sizes = {"B": 2, "H": 3, "T": count, "1": 1}
    if shape == "last axis first":
        bias = torch.randn(count, 2, 3, count).permute(1, 2, 3, 0)
    else:
        bias = torch.randn([sizes[s] for s in shape.split()])
    mask = masked(bias.expand(*bias.shape[:-2], count, count))[(None,) * (4 - bias.ndim)]
    before = bias.clone()
    outputs = [attention(q, k, v, bias, 0.3, True), F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.3)]
    assert torch.equal(*outputs)
    for ours, theirs in zip(*(torch.autograd.grad(out.square().sum(), [q, k, v]) for out in outputs), strict=True):
        assert torch.equal(ours, theirs)
    assert torch.equal(bias, before)


class GPUKernel(torch.autograd.Function):
    """In place of torch's kernel for GPUs, whose gradient of a bias is left unwritten at later keys."""

    @staticmethod
    def forward(ctx, q, k, v, bias, causal, scale):
        ctx.save_for_backward(q, k, v, bias)
        ctx.options = causal, scale
        return GPUKernel.plain(q, k, v, bias, causal, scale)

    @staticmethod
    def plain(q, k, v, bias, causal, scale):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=masked(bias) if causal else bias, scale=scale)

    @staticmethod
    def backward(ctx, gradient):
        with torch.enable_grad():
            inputs = [x.detach().requires_grad_() for x in ctx.saved_tensors]
            *qkv, bias = torch.autograd.grad(GPUKernel.plain(*inputs, *ctx.options), inputs, gradient)
        later = torch.ones(bias.shape[-2:], dtype=torch.bool).triu(1)
        return *qkv, bias.masked_fill(later, math.nan) if ctx.options[0] else bias, None, None


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("shape", ["1 1 T T", "1 H T T", "B H T T", "last axis first"])
@pytest.mark.parametrize("count", [5, 16, 67])
def test_a_gpus_kernel_gets_aligned_rows_and_gives_the_bias_its_gradient(count, shape, causal, monkeypatch):
    q, k, v, raw = leaves(*[(2, 3, count, 8)] * 3, (2, count, 3, count) if shape == "last axis first" else (2, 3, count, count))
    sizes = {"B": 2, "H": 3, "T": count, "1": 1}
    bias = raw.transpose(1, 2).mT if shape == "last axis first" else raw[tuple(slice(sizes[s]) for s in shape.split())]

    def kernel(q, k, v, bias, compute_log_sumexp, is_causal, scale):
        assert bias.stride(-1) == 1 and not any(n % ALIGNED for n in bias.stride()[:-1]) and compute_log_sumexp
        return (GPUKernel.apply(q, k, v, bias, is_causal, scale),)

    monkeypatch.setattr(attention_kernel, "EFFICIENT", kernel)
    found = efficient_attention(q, k, v, bias, 0.3, causal)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=masked(bias) if causal else bias, scale=0.3)
    weights = torch.randn_like(found)
    pairs = zip(*(torch.autograd.grad((out * weights).sum(), [q, k, v, raw]) for out in (found, expected)), strict=True)
    for ours, theirs in [(found, expected), *pairs]:
        torch.testing.assert_close(ours, theirs)


def test_a_gpus_kernel_takes_whole_vectors_of_16_bytes_only():
    def tensors(width=16, dtype=torch.bfloat16, count=9):
        return tuple(torch.zeros(2, count, 3, width, dtype=dtype).transpose(1, 2) for _ in range(3))

    q, k, v = tensors()
    assert efficient_takes(q, k, v) and efficient_takes(*tensors(dtype=torch.float32))
    assert not efficient_takes(*tensors(12)) and not efficient_takes(*tensors(dtype=torch.float64))
    assert not efficient_takes(q, k, tensors(8)[0]) and not efficient_takes(q.float(), k, v)
    assert not efficient_takes(*(x[..., 4:12] for x in (q, k, v))), "rows begin in the middle of a vector"
    assert not efficient_takes(q, k.mT.contiguous().mT, v), "the last axis is not contiguous"


@pytest.mark.parametrize("count", [16, 96])
@pytest.mark.parametrize("kind", ["narrow keys", "wide keys", "last axis first"])
def test_queries_and_keys_of_any_width_and_layout_take_a_bias(kind, count):
    """torch's kernel does not check them: it would read foreign memory."""
    width = {"narrow keys": 4, "wide keys": 12}.get(kind, 8)
    q, k, v = (x.detach() for x in leaves((2, 3, count, width), (2, 3, count, width), (2, 3, count, 8)))
    bias, layouts = torch.randn(3, count, count, dtype=torch.float64), [(q, k, v)]
    if kind == "last axis first":
        layouts = [tuple(x.mT.contiguous().mT if x is y else x for x in (q, k, v)) for y in (q, k, v)]
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=masked(bias)[None], scale=0.3)
    for layout in layouts:
        torch.testing.assert_close(attention(*layout, bias, 0.3, True), expected)


# --- packed rows


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_unpad_inverts_pad(sizes):
    tokens = torch.zeros(len(sizes), max(sizes), dtype=torch.int64)
    for n, size in enumerate(sizes):
        tokens[n, :size] = torch.arange(size) + 100 * (n + 1)
    np_sizes = torch.tensor(sizes).numpy()
    batch = as_batch(tasks.Examples(tokens.numpy(), np_sizes - 1, np_sizes, np_sizes))
    layout, cells = batch.layout, batch.tokens.flatten()
    rows = (cells if layout.cell_of is None else cells[layout.cell_of]).double()[:, None].repeat(1, 3).requires_grad_()
    assert len(rows) == sum(sizes), "no padding among the rows"
    padded = layout.pad(rows)
    assert torch.equal(padded[..., 0][tokens > 0], tokens[tokens > 0].double())
    assert torch.equal(layout.unpad(padded), rows)
    some = torch.randperm(len(rows))[: 1 + len(rows) // 2]
    selected = layout.unpad(padded * 2, some)
    assert torch.equal(selected, 2 * rows[some])
    weights = torch.randn(selected.shape, dtype=torch.float64)
    (gradient,) = torch.autograd.grad((selected * weights).sum(), rows)
    assert torch.equal(gradient, torch.zeros_like(rows).index_add(0, some, 2 * weights))


# --- cached tables


@pytest.mark.parametrize("name", NAMES)
def test_the_cache_changes_nothing(name):
    model = tiny_model(name).eval()
    passes = [(length, announced_length) for length in (5, 9, 5, 9) for announced_length in (9, 30, 9)]
    for length, announced_length in passes:
        tokens = random_tokens(2, length)
        warm = model(tokens, announced_length, torch.Generator().manual_seed(1))
        with torch.inference_mode():
            model(tokens, announced_length, torch.Generator().manual_seed(1))
        model.cache.clear()
        assert torch.equal(warm, model(tokens, announced_length, torch.Generator().manual_seed(1)))
    model(random_tokens(2, 5), 9, torch.Generator()).sum().backward()
    cls = type(model.encoding)
    varies = cls.info.random or "positions" in encodings.hooks(cls) or any(True for _ in model.encoding.parameters())
    assert bool(model.cache) == (not varies)
