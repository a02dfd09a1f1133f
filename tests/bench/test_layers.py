"""Embeddings, linear maps and layer norms of the model against torch's in float64."""

import pytest
import torch
from torch.nn import functional as F

from bench.training.layers import Embedding, LayerNorm, Linear, RecordedLayerNorm, RepeatableEmbedding


@pytest.mark.parametrize(("inputs", "outputs"), [(64, 256), (256, 64), (16, 16)])
@pytest.mark.parametrize("rows", [1, 37, 128])
@pytest.mark.parametrize("low", [False, True])
def test_products_are_those_of_torch(inputs, outputs, rows, low):
    """Low: of inputs rounded to bf16, and nothing but the output is rounded again."""
    dtype, tolerance = (torch.bfloat16, 2**-8) if low else (torch.float32, 1e-6)
    linear, x, gradient = Linear(inputs, outputs), torch.randn(rows, inputs, requires_grad=True), torch.randn(rows, outputs)
    with torch.autocast("cpu", torch.bfloat16, enabled=low):
        result = linear(x)
    result.backward(gradient.to(dtype))
    assert result.dtype == dtype
    exact, weight, gradient = (t.detach().to(dtype).double() for t in (x, linear.weight, gradient))
    expected = [(exact @ weight.T, tolerance), (gradient @ weight, 1e-6), (gradient.T @ exact, 1e-6)]
    for ours, (theirs, accepted) in zip((result, x.grad, linear.weight.grad), expected, strict=True):
        assert (ours.double() - theirs).norm() <= accepted * theirs.norm()


def test_a_recorded_layer_norm_is_that_of_torch():
    norm, x, gradient = LayerNorm(16), torch.randn(37, 16, requires_grad=True), torch.randn(37, 16)
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    found = RecordedLayerNorm.apply(x, norm.weight, norm.bias, norm.eps)
    exact = [part.detach().double().requires_grad_() for part in (x, norm.weight, norm.bias)]
    expected = F.layer_norm(exact[0], (16,), *exact[1:], norm.eps)
    torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=1e-5)
    found.backward(gradient)
    expected.backward(gradient.double())
    for ours, theirs in zip((x, norm.weight, norm.bias), exact, strict=True):
        torch.testing.assert_close(ours.grad.double(), theirs.grad, atol=1e-5, rtol=1e-5)


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
