"""The page of ``benchmarks/gpu.py``."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
from common import OURS, versus

BOUNDS = {"loss": 1e-4, "gradient": 1e-4, "losses": 1e-3, "graph": 1e-4}
"""Column of ``equality`` → largest accepted relative difference."""
SHOWN = 6
"""Encodings shown as the slowest, and as those with the largest memory."""


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of the file. The last line of a process that was killed may be broken."""
    rows = []
    for line in path.read_text().splitlines() if path.exists() else ():
        with suppress(json.JSONDecodeError):
            rows.append(json.loads(line))
    return rows


def render(rows: list[dict[str, Any]]) -> str:
    """The page."""
    own = [row for row in rows if "error" not in row]
    parts = {part: pd.DataFrame(found) for part, found in pd.DataFrame(own).dropna(axis=1, how="all").groupby("part")}
    text = [f"# Speed on a GPU\n\n{parts['machine'].text.iloc[-1]} Written by `benchmarks/gpu.py`."]
    if (found := parts.get("equality")) is not None:
        numbers = found.set_index("case").reindex(columns=[*BOUNDS]).astype(float)
        beyond = [name for name, row in numbers.iterrows() if any(row[key] > bound for key, bound in BOUNDS.items())]
        text.append("Relative differences in fp32 of GPU and CPU in first steps, and of recorded and plain gradients (graph).")
        text[-1] += f" Larger than {BOUNDS}: {', '.join(beyond) or 'none'}."
        text.append(numbers.describe().loc[["count", "50%", "max"]].to_markdown(floatfmt=".1e"))
    if (found := parts.get("steps")) is not None:
        text += ["Training step of copying, ms, and in brackets the fastest other model over ours.", versus(found, "size")]
        own = found[found.who.str.startswith(OURS)].pivot(index=["size", "encoding"], columns="who", values="ms")
        text += ["Without one of our tricks: time over ours.", own.div(own.pop(OURS), axis=0).to_markdown(floatfmt=".2f")]
    if (found := parts.get("catalogue")) is not None:
        shown = pd.concat([found.nlargest(SHOWN, column) for column in ("over_nope", "test_mb")]).drop_duplicates("case")
        text.append(f"Of {len(found)} encodings at 256x6, 1,024 tokens and bf16, the slowest steps and largest tests (MiB).")
        text.append(shown[["case", "ms", "over_nope", "train_mb", "test_mb"]].to_markdown(index=False, floatfmt=",.2f"))
    if (found := parts.get("packed")) is not None:
        table = found.drop(columns=["part", "case"]).dropna(axis=1, how="all").convert_dtypes()
        text.append("Several trainings at a time, fp32: steps a second of all together, useful TFLOP/s.")
        text.append(table.to_markdown(index=False, floatfmt=",.2f"))
    if failed := [f"{row['part']} {row['case']}: {row['error'][:80]}" for row in rows if "error" in row]:
        text.append(f"Failed: {'; '.join(failed[:SHOWN])}.")
    return "\n\n".join(text) + "\n"
