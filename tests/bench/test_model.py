"""The decoder: against a reference implementation, its calls of hooks, its initial weights."""

import math
from contextlib import nullcontext

import pytest
import torch
from helpers import NAMES, random_tokens, setup_of, spec_of, tiny_model
from torch import Tensor
from torch.nn import functional as F

import tasks
from bench.encodings.nope import NoPE
from bench.plugins.registry import get_encoding
from bench.training.model import Embedding, RepeatableEmbedding, build_decoder
from bench.training.train import autocast

# --- what it computes


def reference_logits(w: dict[str, Tensor], tokens: Tensor, layers: int, slopes: list[float]) -> Tensor:
    """Logits of one sequence [T] from the weights: pre-norm blocks, exact GELU, causal softmax(q·kᵀ/√d − slope·(i − j))."""

    def norm(x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"])

    x, size = w["embedding.weight"][tokens], len(tokens)
    distance = torch.arange(size)[:, None] - torch.arange(size)
    bias = (-torch.tensor(slopes, dtype=x.dtype)[:, None, None] * distance).masked_fill(distance < 0, -math.inf)
    for n in range(layers):
        block = f"blocks.{n}"
        projected = norm(x, f"{block}.attention_norm") @ w[f"{block}.qkv.weight"].T
        q, k, v = projected.view(size, 3, len(slopes), -1).permute(1, 2, 0, 3)
        mixed = (q @ k.mT / q.shape[-1] ** 0.5 + bias).softmax(-1) @ v
        x = x + mixed.transpose(0, 1).flatten(1) @ w[f"{block}.out.weight"].T
        x = x + F.gelu(norm(x, f"{block}.mlp_norm") @ w[f"{block}.up.weight"].T) @ w[f"{block}.down.weight"].T
    return norm(x, "norm") @ w["head.weight"].T


SLOPES = {
    ("nope", 2): [0.0, 0.0],
    ("nope", 3): [0.0, 0.0, 0.0],
    ("alibi", 2): [1 / 16, 1 / 256],
    ("alibi", 3): [1 / 16, 1 / 256, 1 / 4],
}


@pytest.mark.parametrize(("name", "heads"), SLOPES)
def test_the_decoder_equals_a_reference_implementation(name, heads):
    model = tiny_model(name, heads=heads, train_tokens=5).double()
    with torch.no_grad():  # norms start at ones and zeros, which would hide a swap
        for key, parameter in model.named_parameters():
            if "norm" in key:
                parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(len(key))) * 0.3)
    tokens = random_tokens(2, 9)  # longer than L
    logits = model.logits(model(tokens, 9))
    for row, sequence in zip(logits, tokens, strict=True):
        torch.testing.assert_close(
            row, reference_logits(model.state_dict(), sequence, 2, SLOPES[name, heads]), atol=1e-9, rtol=1e-9
        )


def test_hooks_are_called_in_order_with_the_right_context():
    calls = []

    class Spy(NoPE):
        def positions(self, tokens, at):
            calls.append(("positions", at.layer))
            assert (at.ids, at.shared, at.source) == (None, None, None)
            return torch.arange(tokens.shape[1]) + 5

        def prepare(self, at):
            calls.append(("prepare", at.layer))
            assert at.positions.tolist() == [5, 6, 7, 8]
            assert (at.shared, at.source) == (None, None)
            return "shared"

        def embed(self, x, at):
            calls.append(("embed", at.layer))
            assert (at.shared, at.source) == ("shared", None)
            self.norm = torch.nn.functional.layer_norm(x, x.shape[-1:])
            return x

        def rotate(self, q, k, at):
            calls.append(("rotate", at.layer))
            self.inside(q, at)
            return q, k

        def bias(self, q, k, at):
            calls.append(("bias", at.layer))
            self.inside(q, at)
            return None

        def attend(self, q, k, v, bias, at):
            calls.append(("attend", at.layer))
            self.inside(q, at)
            return super().attend(q, k, v, bias, at)

        def advance(self, q, k, bias, mlp, at):
            calls.append(("advance", at.layer))
            self.inside(q, at)
            self.after = mlp
            return at.layer

        def inside(self, q, at):
            assert q.shape == (2, 3, 4, 8)
            assert at.positions.tolist() == [5, 6, 7, 8]
            assert (at.announced_length, at.shared, at.causal) == (77, "shared", True)
            assert at.state == (None, 0, 1)[at.layer]
            assert at.generator is source
            torch.testing.assert_close(at.h, self.norm)

    source = torch.Generator()
    model, outputs = tiny_model(Spy, layers=3), []
    model.blocks[1].down.register_forward_hook(lambda block, inputs, output: outputs.append(output))
    model(random_tokens(2, 4), 77, source)
    once = [(name, layer) for layer in range(3) for name in ("embed", "rotate", "bias", "attend", "advance")]
    assert calls == [("positions", 0), ("prepare", 0), *once[:-1]]
    assert torch.equal(model.encoding.after.flatten(0, 1), outputs[0])


# --- initial weights


@pytest.mark.parametrize("name", NAMES)
def test_initial_weights_depend_only_on_the_seed(name):
    """Not on the global random state, which stays as it is, and outside of the encoding not on the encoding."""
    first = tiny_model(name, seed=7).state_dict()
    torch.manual_seed(123)
    before = torch.get_rng_state()
    second, other = tiny_model(name, seed=7).state_dict(), tiny_model(name, seed=2).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[key], second[key]) for key in first)
    backbone = {key: x for key, x in first.items() if not key.startswith("encoding.")}
    expected = tiny_model("nope", seed=7).state_dict()
    assert backbone.keys() == expected.keys()
    assert all(torch.equal(backbone[key], expected[key]) for key in expected)
    matrices = [key for key, x in backbone.items() if x.ndim == 2]
    assert len(matrices) == 2 + 4 * 2
    assert not any(torch.equal(first[key], other[key]) for key in matrices)


def test_matrices_are_initialised_fan_in_normal():
    layers, width, mlp, symbols = 3, 96, 32, 500
    spec = spec_of(heads=12, layers=layers)
    assert (spec.width, spec.mlp_width) == (width, mlp)
    vocabulary = tasks.get("copying", "unique", symbols // 2).vocabulary
    model = build_decoder(spec, get_encoding("nope"), setup_of(spec, vocabulary=vocabulary), seed=0)
    residual = (2 * layers) ** -0.5
    expected = {"embedding.weight": (1.0, (504, width)), "head.weight": (width**-0.5, (504, width))}
    for n in range(layers):
        expected |= {
            f"blocks.{n}.qkv.weight": (width**-0.5, (3 * width, width)),
            f"blocks.{n}.out.weight": (width**-0.5 * residual, (width, width)),
            f"blocks.{n}.up.weight": (width**-0.5, (mlp, width)),
            f"blocks.{n}.down.weight": (mlp**-0.5 * residual, (width, mlp)),
        }
    for name, parameter in model.named_parameters():
        x = parameter.detach()
        if name not in expected:
            assert "norm" in name, name
            assert torch.equal(x, torch.ones_like(x) if name.endswith("weight") else torch.zeros_like(x))
            continue
        std, shape = expected.pop(name)
        assert x.shape == shape
        z, count = x / std, x.numel()
        # Five standard errors of the mean, the variance and the fourth moment of as many normal numbers.
        assert abs(z.mean()) < 5 / count**0.5
        assert abs(z.square().mean() - 1) < 5 * (2 / count) ** 0.5
        assert abs((z**4).mean() - 3) < 5 * (96 / count) ** 0.5
    assert not expected


def test_a_repeatable_embedding_is_that_of_torch():
    ids, weight, gradient = torch.randint(0, 7, (37,)), torch.randn(9, 16, requires_grad=True), torch.randn(37, 16)
    exact = weight.detach().double().requires_grad_()
    found, expected = RepeatableEmbedding.apply(ids, weight), F.embedding(ids, exact)
    assert torch.equal(found.double(), expected)
    found.backward(gradient)
    expected.backward(gradient.double())
    torch.testing.assert_close(weight.grad.double(), exact.grad, atol=1e-5, rtol=1e-5)
    used = [Embedding(9, 16, device=device)(ids.to(device)).grad_fn.name() for device in ("cpu", "meta")]
    assert used == ["EmbeddingBackward0", "RepeatableEmbeddingBackward"], "on every device but a CPU"


@pytest.mark.filterwarnings("ignore:User provided device_type of 'cuda', but CUDA is not available")
def test_the_precision_of_the_suite_decides_on_a_gpu():
    low, full = (
        build_decoder(spec_of(), NoPE, setup_of(spec_of()), 0, precision)
        for precision in ("fp32 on cpu, bf16 autocast on cuda", "fp32")
    )
    assert autocast(low, torch.device("cuda")).fast_dtype == torch.bfloat16
    for model, device in ((full, "cuda"), (low, "cpu"), (full, "cpu")):
        assert isinstance(autocast(model, torch.device(device)), nullcontext)
    assert not (torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32)
