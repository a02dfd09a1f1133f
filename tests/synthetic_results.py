"""Synthetic results for the tests of the board: no training, every number is chosen by the test."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from bench.measure import Card, CostAt
from bench.plugins.registry import is_built_in
from bench.result import EncodingRecord, LengthScore, Result, Timings, write_result
from bench.suites.suite import Suite, load_suite
from leaderboard.render.published import build_board
from leaderboard.results.frame import build_frame
from leaderboard.stats.rows import Board

QUICK = load_suite("quick")
CURVE, GOOD, WORST = (1, 1, 0.5, 0.25), (1, 1, 1, 1), (1, 1, 0, 0)
"""Exact match at the four test lengths of ``suite``."""


def suite(**changes: Any) -> Suite:
    """A suite of two tasks, parity (L = 4, chance ½) and sorting (L = 6), at ½, 1, 1.5 and 2 times L, with three seeds."""
    content: dict[str, Any] = {
        "name": "tiny",
        "version": 1,
        "about": "Made up.",
        "model": QUICK.model,
        "recipe": QUICK.recipe,
        "test_seed": 0,
        "test_at": [0.5, 1, 1.5, 2],
        "test_examples": 100,
        "seeds": [0, 1, 2],
        "encodings": ["nope", "rope"],
        "tasks": [
            {"task": "parity", "variant": "answer", "train_length": 4},
            {"task": "sorting", "variant": "unique", "train_length": 6},
        ],
    }
    return Suite.model_validate(content | changes)


def result(
    of: Suite,
    task: str = "sorting",
    encoding: str | EncodingRecord = "nope",
    seed: int = 0,
    exact: Sequence[float] = CURVE,
    **changes: Any,
) -> Result:
    """One run of a suite with the given exact match at each of its test lengths."""
    made = of.make_task(task)
    scores = [
        LengthScore(length=n, exact=e, token=e, nll=0.1, count=of.test_examples, tokens=n, chance=made.chance(n))
        for n, e in zip(of.test_lengths(task), exact, strict=True)
    ]
    content: dict[str, Any] = {
        "suite": of.name,
        "suite_version": of.version,
        "fingerprint": of.fingerprint,
        "task": task,
        "task_sha256": "fedcba9876543210",
        "variant": of.spec(task).variant,
        "train_length": of.spec(task).train_length,
        "longest_seen": of.spec(task).train_length,
        "sealed": not is_built_in(encoding if isinstance(encoding, str) else encoding.name),
        "test_seed": 7,
        "encoding": record(encoding) if isinstance(encoding, str) else encoding,
        "seed": seed,
        "status": "done",
        "steps": of.recipe_for(task).steps,
        "loss": [(10, 2.0), (800, 0.1)],
        "scores": scores,
        "symbols": len(made.vocabulary),
        "parameters": {"model": 100_000, "encoding": 0},
        "timings": timings(10),
        "data_hash": f"hash of {task}",
        "versions": {"torch": "2.13.0"},
        "device": "cpu",
        "threads": 1,
        "started": "2025-01-01T00:00:00Z",
        "finished": "2025-01-01T00:00:09Z",
    }
    return Result.model_validate(content | changes)


def timings(step_ms: float, **changes: Any) -> Timings:
    return Timings.model_validate({"step_ms": step_ms, "train_s": 8.0, "evaluate_s": 1.0, "total_s": 9.0} | changes)


def record(name: str, **changes: Any) -> EncodingRecord:
    content: dict[str, Any] = {
        "name": name,
        "family": "made up",
        "ranking": "standard",
        "year": 2020,
        "title": f"All about {name}",
        "link": f"https://example.org/{name}",
        "source": "",
        "settings": {},
        "source_sha256": "0123456789abcdef",
    }
    return EncodingRecord.model_validate(content | changes)


def a_card(**changes: Any) -> Card:
    """A card, with changes."""
    card = Card(
        flops_ratio=1.2,
        costs=[CostAt(length=23, step_ms=26.04, step_ratio=1.25, peak_mb=19.6, peak_ratio=1.1)],
        suite="small", task="copying", source_sha256="0123456789abcdef", versions={"torch": "2"}, device="cpu (X)", threads=1,
        commit=None, cpu_share=0.99, finished="2026-01-01T00:00:00+00:00",
    )  # fmt: skip
    return card.model_copy(update=changes)


def full(of: Suite, curves: Mapping[str, Sequence[float]], **changes: Any) -> list[Result]:
    """Runs of each encoding on every task and seed, all with the encoding's curve."""
    return [
        result(of, task.task, encoding, seed, exact, **changes)
        for encoding, exact in curves.items()
        for task in of.tasks
        for seed in of.seeds
    ]


def frame(runs: Sequence[Result], origin: str = "published") -> pd.DataFrame:
    """The frame of runs."""
    return build_frame(runs, origin)


def board(runs: Sequence[Result]) -> Board:
    return build_board(frame(runs), None)


def spread(of: Suite, curves: Mapping[str, Sequence[float]], by: float = 0.02) -> list[Result]:
    """Runs of each encoding whose curves differ a little between seeds, in the same way for all."""
    runs = []
    for encoding, curve in curves.items():
        for task in of.tasks:
            for seed in of.seeds:
                exact = [min(1, max(0, value - by * (seed - 1) * (n > 1))) for n, value in enumerate(curve)]
                runs.append(result(of, task.task, encoding, seed, exact))
    return runs


def in_class(of: Suite, name: str, ranking: str, exact: Sequence[float]) -> list[Result]:
    """Runs of an encoding of a ranking class on every task and seed."""
    return [result(of, task.task, record(name, ranking=ranking), seed, exact) for task in of.tasks for seed in of.seeds]


def store(out: Path, runs: Sequence[Result]) -> None:
    """Write results where the harness would."""
    for run in runs:
        write_result(out / run.path, run)
