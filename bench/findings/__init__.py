"""Findings of the literature that fit a CPU, one YAML file each: the claim, where it was published, what to run, and the rule
that decides whether it is reproduced. ``lprime reproduce`` runs them."""
