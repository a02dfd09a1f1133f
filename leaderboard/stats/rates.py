"""The learning rate that counts: for each encoding, task and seed, the one with the lowest loss within L of the other seeds.

No run chooses its own rate, and accuracy beyond L chooses nothing. With a single seed, that seed's own losses choose.
"""

import numpy as np
import pandas as pd

CELL = ["encoding", "task"]


def with_choice(runs: pd.DataFrame) -> pd.DataFrame:
    """The scored runs of one suite with a column ``chosen``.

    Rates are compared on the other seeds that have a run at every rate that this seed has; a diverged run has an infinite loss.
    """
    chosen = np.zeros(len(runs), bool)
    rates = runs["learning_rate"].fillna(0.0).to_numpy(float)
    seeds, losses = runs["seed"].to_numpy(), runs["loss_within"].to_numpy(float)
    for places in runs[CELL].reset_index(drop=True).groupby(CELL, sort=False, observed=True).indices.values():
        columns, column = np.unique(rates[places], return_inverse=True)
        if len(columns) == 1:
            chosen[places] = True
            continue
        rows, row = np.unique(seeds[places], return_inverse=True)
        table = np.full((len(rows), len(columns)), np.nan)
        table[row, column] = losses[places]
        for seed, own in enumerate(~np.isnan(table)):
            others = np.delete(table, seed, 0)[:, own]
            others = others[~np.isnan(others).any(1)]
            means = np.minimum(others if len(others) else table[[seed]][:, own], 1e9).mean(0)  # fewer diverged runs first
            best = np.flatnonzero(own)[means.argmin()]  # if all diverged, the smallest rate
            chosen[places[(row == seed) & (column == best)]] = True
    return runs.assign(chosen=chosen)


def at_an_end(runs: pd.DataFrame) -> pd.Series:
    """For each (encoding, task) of a suite that sweeps the rate, the share of its chosen rates at an end of its sweep."""
    swept = runs[runs["learning_rate"].notna()]
    rates = swept.groupby(CELL, observed=True)["learning_rate"]
    at_end = (swept["learning_rate"] == rates.transform("min")) | (swept["learning_rate"] == rates.transform("max"))
    return swept.assign(at_end=at_end)[swept["chosen"]].groupby(CELL, observed=True)["at_end"].mean()
