"""Arithmetic of a training step, for estimates of how long a run takes."""

from collections.abc import Sequence

from bench.suites.suite import ModelSpec


def step_flops(spec: ModelSpec, symbols: int, sizes: Sequence[int], answers: int) -> int:
    """FLOPs of the matrix products of one forward and backward pass; the backward pass counts as two forward passes.

    Arguments:
        symbols: size of the vocabulary.
        sizes: tokens of each example, without padding.
        answers: positions at which logits are computed.
    """
    linear = 2 * sum(sizes) * (4 * spec.width**2 + 2 * spec.width * spec.mlp_width)  # q, k, v, output and the two of the MLP
    attention = sum(2 * 2 * size**2 * spec.width for size in sizes)  # q·k and weights·v over all heads, later keys included
    return 3 * (spec.layers * (linear + attention) + 2 * answers * spec.width * symbols)
