"""``python benchmarks/devices.py small CPU_RUNS GPU_RUNS``: do the same runs on two devices have equal scores?

Two one-sided t tests at 5 %: scores are equal if the 90 % interval of the mean difference is within the margin. Overall, the
unit is the mean over tasks of an encoding and a seed that have all tasks on both.
"""

from pathlib import Path
from typing import Annotated

import pandas as pd
import typer
from scipy.stats import t

from bench.suites.suite import Suite, load_suite
from leaderboard.results.frame import read_local
from leaderboard.stats.scores import scored

RUN = ["task", "encoding", "seed", "learning_rate"]
MARGIN, MARGINS = 0.015, {"overall": 0.01, "parity": 0.03}
"""Accepted mean difference of a task's scores, and where another one is accepted."""
FAR = 0.03
"""Encodings are named whose mean score on a task differs by more."""
Runs = Annotated[Path, typer.Argument(metavar="DIR", help="A folder of runs, as `lprime run --out` makes it.")]


def main(suite: str, first: Runs, second: Runs) -> None:
    """Compare the scores of a suite's runs in two folders."""
    one, other = (scores(load_suite(suite), out) for out in (first, second))
    gaps = (other["score"] - one["score"]).dropna().unstack("task").groupby(["encoding", "seed"]).mean()
    columns = {"overall": gaps.mean(axis=1, skipna=False)} | {task: gaps[task] for task in gaps}
    found = {name: equivalence(gap.dropna(), MARGINS.get(name, MARGIN)) for name, gap in columns.items()}
    of = {task: gaps[task].groupby("encoding").mean() for task in gaps}
    far = [f"{name} on {task} by {gap:+.3f}" for task, own in of.items() for name, gap in own[own.abs() > FAR].items()]
    print(f"{' and '.join(other['device'].unique())} minus {' and '.join(one['device'].unique())}\n")
    print(
        pd.DataFrame(found).T.to_markdown(floatfmt="+.4f"),
        f"\nDiffer by more than {FAR}: {', '.join(far) or 'none'}.",
        sep="\n",
    )


def scores(suite: Suite, out: Path) -> pd.DataFrame:
    """The suite's runs under a folder, with their scores, by ``RUN``."""
    runs = read_local(out, suite.name)
    return scored(runs[runs["fingerprint"] == suite.fingerprint].reset_index(drop=True)).set_index(RUN)


def equivalence(gaps: pd.Series, margin: float) -> dict[str, object]:
    """Number of differences, their mean and its 90 % interval, and whether this is within the margin."""
    half = t.ppf(0.95, len(gaps) - 1) * gaps.std() / len(gaps) ** 0.5
    low, high = gaps.mean() - half, gaps.mean() + half
    equal = "yes" if max(-low, high) < margin else "not shown"
    return {"pairs": str(len(gaps)), "mean": gaps.mean(), "low": low, "high": high, "within": margin, "equal": equal}


if __name__ == "__main__":
    typer.run(main)
