"""Deviations of the model whose weights are constructed by hand (``lprime probe theorem``) from what the theorems say."""

from bench.probe.theorem import run_theorem


def measure(seed: int) -> dict[str, float]:
    return run_theorem(seed=seed).errors
