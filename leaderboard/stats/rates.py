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
    for places in runs.reset_index(drop=True).groupby(CELL, sort=False, observed=True).indices.values():
        if len(np.unique(rates[places])) == 1:
            chosen[places] = True
            continue
        table = pd.Series(losses[places]).groupby([seeds[places], rates[places]]).first().unstack()
        for seed in table.index:
            own = table.columns[table.loc[seed].notna()]
            others = table.loc[table.index != seed, own].dropna()
            means = (others if len(others) else table.loc[[seed], own]).mean()
            if np.isfinite(means).any():
                chosen[places[(seeds[places] == seed) & (rates[places] == means.idxmin())]] = True
            else:  # all diverged: the smallest rate
                chosen[places[(seeds[places] == seed) & (rates[places] == own[0])]] = True
    return runs.assign(chosen=chosen)


def at_an_end(runs: pd.DataFrame) -> pd.Series:
    """For each (encoding, task) of a suite that sweeps the rate, the share of its chosen rates at an end of the rates it
    has."""
    swept = runs[runs["learning_rate"].notna()]
    ends = swept.groupby(CELL, observed=True)["learning_rate"].agg(["min", "max"])
    chosen = swept[swept["chosen"]].set_index(CELL)["learning_rate"]
    ends = ends.reindex(chosen.index)
    return ((chosen == ends["min"]) | (chosen == ends["max"])).groupby(level=CELL).mean()
