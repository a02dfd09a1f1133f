"""The page of ``benchmarks/gpu.py``."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
from common import versus

CHECKS = {
    "loss": (1e-4, "loss of a step, fp32, against the CPU"),
    "gradient": (1e-4, "gradient of a step, fp32, against the CPU"),
    "losses": (1e-3, "first losses of a training, fp32, against the CPU"),
    "graph": (1e-4, "gradient of a step recorded as a CUDA graph, against the same step without"),
}
"""Column of ``equality`` → largest accepted relative difference, and what it is of."""
SHOWN = 10
"""Encodings that a line names."""


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of the file. The last line of a process that was killed may be broken."""
    rows = []
    for line in path.read_text().splitlines() if path.exists() else ():
        with suppress(json.JSONDecodeError):
            rows.append(json.loads(line))
    return rows


def render(rows: list[dict[str, Any]]) -> str:
    """The page."""

    def part(name: str) -> pd.DataFrame:
        return pd.DataFrame([row for row in rows if row["part"] == name and "error" not in row and "left_out" not in row])

    text = [f"# Speed on a GPU\n\n{part('machine').text.iloc[-1]} Written by `benchmarks/gpu.py`."]
    if len(equal := part("equality")):
        text.append("Largest relative differences over all encodings:\n")
        for column, (bound, what) in CHECKS.items():
            if len(values := equal.set_index("case")[column].dropna()):
                other = values[values > bound].sort_values(ascending=False).index[:SHOWN]
                beyond = f"; more for {', '.join(other)}" if len(other) else ""
                text[-1] += f"\n- {what}: {values.median():.1e} (median), at most {bound:g} for {(values <= bound).sum()} of "
                text[-1] += f"{len(values)} encodings{beyond}"
    if len(steps := part("steps")):
        text += ["Training step of copying, ms, and in brackets the fastest other model over ours:", versus(steps, "size")]
    if len(catalogue := part("catalogue")):
        slow, large = (catalogue.nlargest(SHOWN, column) for column in ("over_nope", "test_mb"))
        steps_text = ", ".join(f"{name} {value:.2f}×" for name, value in zip(slow.case, slow.over_nope, strict=True))
        memory = ", ".join(f"{name} {value:,.0f}" for name, value in zip(large.case, large.test_mb, strict=True))
        text.append(
            f"{len(catalogue)} encodings at the largest size, all examples as long as the longest, bf16. Step over NoPE's, the "
            f"slowest: {steps_text}. Peak MiB of a test at twice the length, the largest: {memory}."
        )
    if len(packed := part("packed")):
        table = packed.drop(columns=["part", "case"]).to_markdown(index=False, floatfmt=",.2f")
        text += ["Several trainings at a time, fp32: steps a second of all together, useful TFLOP/s.", table]
    if failed := [f"{row['part']} {row['case']}: {row['error'][:80]}" for row in rows if "error" in row]:
        text.append(f"Failed: {'; '.join(failed[:SHOWN])}.")
    return "\n\n".join(text) + "\n"
