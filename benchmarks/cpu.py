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

import tasks
from bench.files import write_atomic
from bench.runs.pool import worker_environment
from tasks import EOS, PAD, Examples

TASKS = ("copying", "addition", "parity", "key_retrieval", "sorting")
SAME_SIZE = ("parity", "copying", "sorting")
"""Tasks whose examples of one length have one size, so that prompts need no padding."""
TURN = 4
"""Steps of a contestant in a row."""


def main(
    quick: Annotated[bool, typer.Option("--quick", help="A smoke run of a minute, whose numbers mean nothing.")] = False,
) -> None:
    """Measure our speed next to x-transformers and Hugging Face transformers."""
    torch.set_num_threads(1)
    timed, tested = (SAME_SIZE[:1], SAME_SIZE[:1]) if quick else (TASKS, SAME_SIZE)
    record = {
        "machine": machine(CPU, None, quick),
        "steps": [row for task in timed for row in time_steps(task, quick)],
        "evaluation": [row for task in tested for row in time_evaluation(task, quick)],
    }
    print(text := render(record))
    if not quick:
        write_atomic(Path("runs/cpu.json"), json.dumps(record, indent=1) + "\n")
        write_atomic(Path(__file__).parent / "CPU.md", text)


def time_steps(task: str, quick: bool) -> list[dict[str, Any]]:
    """Median ms of a training step of each contestant at the shapes of suite ``small``."""
    suite, turn = suite_of("64x3", task, batch=4 if quick else None), 1 if quick else TURN
    contestants: dict[tuple[str, str], Ours | Theirs] = {(name, OURS): Ours(suite, name) for name in REFERENCES}
    contestants |= {(encoding, who): Theirs(module, suite) for who, encoding, module in library_models(suite)}
    calls = {key: partial(one.steps, turn) for key, one in contestants.items()}
    return as_rows(task, take_turns(calls, 1 if quick else 15, turn))


def time_evaluation(task: str, quick: bool) -> list[dict[str, Any]]:
    """Median ms of the exact match of a test set at the longest length, by untrained models."""
    suite = suite_of("64x3", task)
    generator = suite.make_task(task)
    examples = tasks.test_set(generator, generator.longest, 4 if quick else suite.test_examples, suite.test_seed)
    calls = {(name, OURS): partial(Ours(suite, name).evaluate, examples) for name in REFERENCES}
    for who, encoding, module in library_models(suite):
        if hasattr(module, "generate"):
            calls[encoding, who] = partial(generated_match, module, examples)
    return as_rows(task, take_turns(calls, 1 if quick else 3))


def as_rows(task: str, ms: dict[tuple[str, str], float]) -> list[dict[str, Any]]:
    return [{"task": task, "encoding": encoding, "who": who, "ms": value} for (encoding, who), value in ms.items()]


def generated_match(module: torch.nn.Module, examples: Examples) -> float:
    """Share of examples, all of one size, for which greedy decoding generates exactly the answer and ``<eos>``."""
    module.eval()
    start, tokens = int(examples.answer_start[0]), torch.from_numpy(examples.tokens)
    written = module.generate(  # type: ignore[operator]
        input_ids=tokens[:, :start], attention_mask=torch.ones_like(tokens[:, :start]), max_new_tokens=tokens.shape[1] - start,
        do_sample=False, use_cache=True, eos_token_id=EOS, pad_token_id=PAD,
    )[:, start:]  # fmt: skip
    # If all sequences end early, generate() returns fewer columns.
    written = torch.nn.functional.pad(written, (0, tokens.shape[1] - start - written.shape[1]), value=PAD)
    return float((written == tokens[:, start:]).all(1).float().mean())


def render(record: dict[str, Any]) -> str:
    """The page."""
    return f"""# Speed on one CPU core

{record["machine"]} Written by `make speed`.

Training step, ms, and in brackets the fastest model of x-transformers and Hugging Face transformers with that encoding, over
ours. All have the shapes of suite `small`, one thread, the same examples, loss, clipping and AdamW, and take turns; drawing of
examples is included.

{versus(pd.DataFrame(record["steps"]), "task")}

Exact match at the longest length, ms for the test set by our teacher-forced pass, and in brackets greedy `generate()` with a KV
cache over ours.

{versus(pd.DataFrame(record["evaluation"]), "task")}
"""


if __name__ == "__main__":
    if (environment := os.environ | worker_environment()) != dict(os.environ):  # as a worker's, whose allocator keeps memory
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)
    typer.run(main)
