"""``python benchmarks/cpu.py``: our speed on one core beside x-transformers and Hugging Face transformers.

Writes ``runs/cpu.json`` and the page ``benchmarks/CPU.md``, after some ten minutes on an idle machine.
"""

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import torch
import typer
from common import CPU, OURS, REFERENCES, Ours, Theirs, library_models, machine, suite_of, take_turns, versus

from bench.files import write_atomic
from bench.runs.pool import worker_environment

TASKS = ("copying", "addition", "parity", "key_retrieval", "sorting")


def main(
    quick: Annotated[bool, typer.Option("--quick", help="A smoke run of a minute, whose numbers mean nothing.")] = False,
) -> None:
    """Measure our speed next to x-transformers and Hugging Face transformers."""
    torch.set_num_threads(1)
    steps = [row for task in (TASKS[:1] if quick else TASKS) for row in time_steps(task, quick)]
    record = {"machine": machine(CPU, None, quick), "steps": steps}
    print(text := render(record))
    if not quick:
        write_atomic(Path("runs/cpu.json"), json.dumps(record, indent=1) + "\n")
        write_atomic(Path(__file__).parent / "CPU.md", text)


def time_steps(task: str, quick: bool) -> list[dict[str, Any]]:
    """Median ms of a training step of each contestant at the shapes of suite ``small``."""
    suite, turn = suite_of("64x3", task, batch=4 if quick else None), 1 if quick else 4
    contestants: dict[tuple[str, str], Ours | Theirs] = {(name, OURS): Ours(suite, name) for name in REFERENCES}
    contestants |= {(encoding, who): Theirs(module, suite) for who, encoding, module in library_models(suite)}
    calls = {key: partial(one.steps, turn) for key, one in contestants.items()}
    found = take_turns(calls, 1 if quick else 15, turn)
    return [{"task": task, "encoding": encoding, "who": who, "ms": value} for (encoding, who), value in found.items()]


def render(record: dict[str, Any]) -> str:
    """The page."""
    return f"""# Speed on one CPU core

{record["machine"]} Written by `make speed`.

Training step, ms, and in brackets the fastest model of x-transformers and Hugging Face transformers with that encoding, over
ours. All have the shapes of suite `small`, one thread, the same examples, loss, clipping and AdamW, and take turns; drawing of
examples is included.

{versus(pd.DataFrame(record["steps"]), "task")}
"""


if __name__ == "__main__":
    if (environment := os.environ | worker_environment()) != dict(os.environ):  # as a worker's, whose allocator keeps memory
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)
    typer.run(main)
