"""Distance between f(permuted tokens) and permuted f(tokens) of a model without encoding, with and without the causal mask."""

from .theorem import permutation_errors


def measure(seed: int) -> dict[str, float]:
    errors = permutation_errors(seed=seed)
    return {"without mask": errors[False], "with mask": errors[True]}
