"""``python benchmarks/cpu.py``: our speed on one core beside x-transformers and Hugging Face transformers.

Writes ``runs/cpu.json`` and the page ``benchmarks/CPU.md``, after some ten minutes on an idle machine.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import torch
import typer
from common import CPU, OURS, REFERENCES, LibraryModel, Ours, Theirs, library_models, machine, suite_of, take_turns, versus

import tasks
from bench.files import write_atomic
from bench.result import RESULT, read_result
from bench.runs.pool import worker_environment
from tasks import EOS, PAD, Examples

TASKS = ("copying", "addition", "parity", "key_retrieval", "sorting")
SAME_SIZE = ("parity", "copying", "sorting")
"""Tasks whose examples of one length have one size, so that prompts need no padding."""
TURN = 4
"""Steps of a contestant in a row."""


def main(
    quick: Annotated[bool, typer.Option("--quick", help="A smoke run of a minute, whose numbers mean nothing.")] = False,
    out: Annotated[Path, typer.Option(metavar="FILE", help="All numbers.")] = Path("runs/cpu.json"),
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="The page [default: benchmarks/CPU.md].")] = None,
) -> None:
    """Measure our speed next to x-transformers and Hugging Face transformers."""
    torch.set_num_threads(1)
    record = {
        "machine": machine(CPU, None, quick),
        "steps": [row for task in (SAME_SIZE[:1] if quick else TASKS) for row in time_steps(task, quick)],
        "evaluation": [row for task in SAME_SIZE[: 1 if quick else None] for row in time_evaluation(task, quick)],
        "run": run_overhead(quick),
    }
    write_atomic(out, json.dumps(record, indent=1) + "\n")
    print(text := render(record))
    if page or not quick:
        write_atomic(page or Path(__file__).parent / "CPU.md", text)


def time_steps(task: str, quick: bool) -> list[dict[str, Any]]:
    """Median ms of a training step of each contestant at the shapes of suite ``small``."""
    suite, turn = suite_of("64x3", task, batch=4 if quick else None), 1 if quick else TURN
    contestants: dict[tuple[str, str], Ours | Theirs] = {(name, OURS): Ours(suite, name) for name in REFERENCES}
    contestants |= {(model.encoding, model.who): Theirs(model, suite) for model in library_models(suite)}
    calls = {key: partial(one.steps, turn) for key, one in contestants.items()}
    return as_rows(task, take_turns(calls, 1 if quick else 5, 0 if quick else 20), turn)


def time_evaluation(task: str, quick: bool) -> list[dict[str, Any]]:
    """Median ms of the exact match of a test set at the longest length, by untrained models."""
    suite = suite_of("64x3", task)
    generator = suite.make_task(task)
    examples = tasks.test_set(generator, generator.longest, 4 if quick else suite.test_examples, suite.test_seed)
    calls = {(name, OURS): partial(Ours(suite, name).evaluate, examples) for name in REFERENCES}
    models = [model for model in library_models(suite) if model.generates]
    calls |= {(model.encoding, model.who): partial(generated_match, model, examples) for model in models}
    return as_rows(task, take_turns(calls, 1 if quick else 3), 1)


def as_rows(task: str, times: dict[tuple[str, str], list[float]], turn: int) -> list[dict[str, Any]]:
    return [
        {"task": task, "encoding": encoding, "who": who, "ms": 1e3 * statistics.median(seconds) / turn}
        for (encoding, who), seconds in times.items()
    ]


def generated_match(model: LibraryModel, examples: Examples) -> float:
    """Share of examples, all of one size, for which greedy decoding generates exactly the answer and ``<eos>``."""
    model.module.eval()
    start, tokens = int(examples.answer_start[0]), torch.from_numpy(examples.tokens)
    written = model.module.generate(  # type: ignore[operator]
        input_ids=tokens[:, :start], attention_mask=torch.ones_like(tokens[:, :start]), max_new_tokens=tokens.shape[1] - start,
        do_sample=False, use_cache=True, eos_token_id=EOS, pad_token_id=PAD,
    )[:, start:]  # fmt: skip
    # If all sequences end early, generate() returns fewer columns.
    written = torch.nn.functional.pad(written, (0, tokens.shape[1] - start - written.shape[1]), value=PAD)
    return float((written == tokens[:, start:]).all(1).float().mean())


def run_overhead(quick: bool) -> dict[str, float]:
    """Seconds of ``lprime run`` outside training and evaluation, with one worker, and the worker's peak memory in MiB."""
    with tempfile.TemporaryDirectory() as scratch:
        chosen = [f"--task={task}" for task in SAME_SIZE[: 1 if quick else None]]
        command = [sys.executable, "-m", "lprime", "run", "quick", *chosen, "--encoding=nope", "--seed=0", "--workers=1"]
        start = time.time()
        subprocess.run([*command, "--device=cpu", f"--out={scratch}"], check=True, stdout=subprocess.DEVNULL)
        files = sorted(Path(scratch).rglob(RESULT), key=lambda path: path.stat().st_mtime)
        timings, ends = [read_result(path).timings for path in files], [path.stat().st_mtime for path in files]
    rest = [end - begin - own.train_s - own.evaluate_s for begin, end, own in zip([start, *ends], ends, timings, strict=False)]
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return {"first_s": rest[0], "other_s": statistics.fmean(rest[1:] or [0.0]), "memory_mb": memory}


def render(record: dict[str, Any]) -> str:
    """The page."""
    run = record["run"]
    return f"""# Speed on one CPU core

{record["machine"]} Written by `make speed`.

Training step, ms, and in brackets the fastest model of x-transformers and Hugging Face transformers with that encoding, over
ours. All have the shapes of suite `small`, one thread, the same examples, loss, clipping and AdamW, and take turns; drawing of
examples is included.

{versus(pd.DataFrame(record["steps"]), "task")}

Exact match at the longest length, ms for the test set by our teacher-forced pass, and in brackets greedy `generate()` with a KV
cache over ours.

{versus(pd.DataFrame(record["evaluation"]), "task")}

`lprime run` takes {run["first_s"]:.1f} s besides training and evaluation for its first run, {run["other_s"]:.2f} s for each of
the others. A worker takes {run["memory_mb"]:,.0f} MiB.
"""


if __name__ == "__main__":
    if (environment := os.environ | worker_environment()) != dict(os.environ):  # as a worker's, whose allocator keeps memory
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)
    typer.run(main)
