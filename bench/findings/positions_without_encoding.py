"""Deviations of the model whose weights are constructed by hand (``theorem``) from what the theorems say."""

from .theorem import run_theorem


def measure(seed: int) -> dict[str, float]:
    return run_theorem(seed=seed).errors
