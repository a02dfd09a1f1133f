"""The linear maps of the model against torch's in float64."""

import pytest
import torch

from bench.training.linear import Linear


@pytest.mark.parametrize(("inputs", "outputs"), [(64, 256), (256, 64), (16, 16)])
@pytest.mark.parametrize("rows", [1, 37, 128])
def test_values_and_gradients_are_those_of_torch(inputs, outputs, rows):
    linear, x = Linear(inputs, outputs), torch.randn(rows, inputs, requires_grad=True)
    weight, exact = linear.weight.detach().double().requires_grad_(), x.detach().double().requires_grad_()
    result, expected, gradient = linear(x), exact @ weight.T, torch.randn(rows, outputs)
    result.backward(gradient)
    expected.backward(gradient.double())
    for ours, theirs in ((result, expected), (x.grad, exact.grad), (linear.weight.grad, weight.grad)):
        torch.testing.assert_close(ours.double(), theirs, atol=2e-4, rtol=1e-4)
