"""``python benchmarks/same_scores.py GPU CPU``: whether the same runs score alike on two devices.

GPU and CPU are folders of runs, or files of ``benchmarks/grid.py``. Runs that are in both are compared by their mean exact
match beyond L. Two one-sided t-tests over runs (Schuirmann 1987) ask whether the mean difference is within .01 overall, and
within .015 for each task, .03 for parity.
"""

import gzip
import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from scipy import stats

MARGINS = {"all": 0.01, "parity": 0.03}
OF_A_TASK = 0.015


def main(
    first: Annotated[Path, typer.Argument(metavar="GPU")],
    second: Annotated[Path, typer.Argument(metavar="CPU")],
) -> None:
    """Compare the scores of runs that two folders or files have in common."""
    both = read(first).join(read(second), rsuffix="_second", how="inner")
    both["difference"] = both.score - both.score_second
    rows = [row("all", both)] + [row(task, own) for task, own in both.groupby("task")]
    print(pd.DataFrame(rows).to_markdown(index=False, floatfmt=".4f"))
    far = both[both.difference.abs() > 0.1]
    print(f"\n{len(far)} of {len(both)} runs differ by more than .1: {', '.join(map(str, far.index))}")


def read(place: Path) -> pd.DataFrame:
    """Score and device by task, encoding, seed and learning rate."""
    if place.is_dir():
        texts = [file.read_text() for file in sorted(place.rglob("result.json"))]
    else:
        texts = gzip.decompress(place.read_bytes()).decode().splitlines()
    return pd.DataFrame(map(record, texts)).set_index(["task", "encoding", "seed", "learning_rate"])


def record(text: str) -> dict[str, Any]:
    result = json.loads(text)
    own = {key: result[key] for key in ("task", "seed", "learning_rate", "device")}
    past = [(s["exact"] - s["chance"]) / (1 - s["chance"]) for s in result["scores"] if s["length"] > result["train_length"]]
    return own | {"encoding": result["encoding"]["name"], "score": float(np.clip(past, 0, None).mean())}


def row(name: str, both: pd.DataFrame) -> dict[str, Any]:
    """Mean difference, its 90 % interval, and whether that is within the margin."""
    margin, difference = MARGINS.get(name, OF_A_TASK), both.difference
    mean, error = difference.mean(), difference.sem()
    low, high = stats.t.interval(0.9, len(difference) - 1, mean, error) if error > 0 else (mean, mean)
    equal = len(difference) > 1 and -margin < low and high < margin
    return {"task": name, "runs": len(difference), "mean": mean, "low": low, "high": high, "margin": margin, "equal": equal}


if __name__ == "__main__":
    typer.run(main)
