"""``lprime data``: a task's examples as a Hugging Face dataset."""

from pathlib import Path
from typing import Annotated

import typer

from .options import OfSuite


def data(
    task: Annotated[str, typer.Argument(metavar="TASK", help="One of the suite's tasks.")],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="A new folder for the dataset.")],
    suite: OfSuite = "small",
    train_examples: Annotated[int, typer.Option(metavar="N", help="Training examples to write.")] = 10_000,
    seed: Annotated[int, typer.Option(metavar="N", help="Training seed.")] = 0,
) -> None:
    """Write a task's examples as a Hugging Face dataset.

    They are the test examples of runs, and the first training examples of a seed; read them with datasets.load_from_disk.
    """
    from bench.dataset import export
    from bench.runs.run import check_seed
    from bench.suites.suite import load_suite

    check_seed(seed)
    loaded = load_suite(suite)
    export(loaded, task, to, train_examples, seed)
    splits = len(loaded.test_lengths(task))
    print(f"{task} of suite {loaded.name}: {train_examples} training examples and {splits} test splits in {to}")
