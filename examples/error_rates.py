"""How often is the board wrong? ``python examples/error_rates.py small``: boards simulated with the spreads of a suite's runs.

The true scores are those of the suite, those of groups of equal encodings, or equal for all. For each number of blocks, this
prints the share of boards with any false significant difference (at most .05 by design), the share with all rank intervals
right (at least .95), and the share found of the pairs that differ by more than .1.
"""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from leaderboard import published_folder
from leaderboard.render.published import joint_board, local_board
from leaderboard.stats import ranks

BLOCKS, GROUP = (3, 5, 8, 12), 4


def main(
    suite: Annotated[str, typer.Argument()] = "small", boards: int = 500, local: bool = False, out: Path = Path("runs")
) -> None:
    board = joint_board(suite, None, published_folder()) if not local else local_board(suite, out)
    rows = board.rows[(board.rows["ranking"] == "standard") & board.rows["complete"]]
    blocks = board.blocks[[board.encodings.index(name) for name in rows["encoding"]]]
    scores = np.sort(rows["score"].to_numpy())
    spreads = np.sqrt(ranks.moderated(ranks.centred(blocks))[1])
    shared = np.nanmean(blocks, axis=0).std()
    groups = scores.copy()
    for first in range(0, len(groups), GROUP):
        groups[first : first + GROUP] = groups[first : first + GROUP].mean()
    print(f"{len(scores)} encodings, spread of a block {spreads.min():.3f} to {spreads.max():.3f}, shared {shared:.3f}")
    for name, truth in {"as in the suite": scores, f"groups of {GROUP}": groups, "all equal": np.zeros(len(scores))}.items():
        for count in BLOCKS:
            wrong, right, found = simulated(truth, spreads, shared, count, boards)
            print(f"{name:16} {count:2} blocks: false {wrong:.3f}, rank intervals right {right:.3f}, pairs found {found:.2f}")


def simulated(truth: np.ndarray, spreads: np.ndarray, shared: float, count: int, boards: int) -> np.ndarray:
    rng, apart = np.random.default_rng(0), truth[:, None] - truth
    low, high = 1 + (apart < 0).sum(1), len(truth) - (apart > 0).sum(1)
    totals = np.zeros(3)
    for seed in range(boards):
        noise = spreads[:, None] * rng.standard_normal((len(truth), count)) + shared * rng.standard_normal(count)
        blocks = truth[:, None] + noise
        scores, ps = blocks.mean(1), ranks.pair_ps(blocks, seed)
        different = ps <= ranks.ALPHA
        wrong = different & ((scores[:, None] - scores) * apart <= 0)
        intervals = ranks.rank_intervals(scores, ps)
        right = ((intervals[:, 0] <= low) & (intervals[:, 1] >= high)).all()
        large = apart > 0.1
        totals += wrong.any(), right, different[large].mean() if large.any() else 0
    return totals / boards


if __name__ == "__main__":
    ranks.REPLICATES = 1000  # of the test, which has 20,000 on a board
    typer.run(main)
