"""``lprime data``: a task's examples as a Hugging Face dataset."""

from pathlib import Path
from typing import Annotated

import typer


def data(
    task: Annotated[str, typer.Argument(metavar="TASK", help="One of the suite's tasks.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A new folder for the dataset.")],
    suite: Annotated[str, typer.Option(metavar="SUITE", help="Suite that defines lengths, test sets and batches.")] = "small",
    train_examples: Annotated[int, typer.Option(metavar="N", help="Training examples to write.")] = 10_000,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Training seed.")] = 0,
) -> None:
    """Write a task's examples as a Hugging Face dataset.

    They are exactly the training and test examples of runs; read them with datasets.load_from_disk.
    """
    from bench.suites.suite import load_suite
    from tasks.export import export

    loaded = load_suite(suite)
    spec = loaded.spec(task)
    export(
        loaded.make_task(task),
        out,
        train_length=spec.train_length,
        test_lengths=loaded.test_lengths(task),
        test_count=loaded.test_examples,
        test_seed=loaded.test_seed,
        seed=seed,
        batch=loaded.recipe_for(task).batch,
        train_examples=train_examples,
        title=f"lprime {task}, suite {loaded.name} version {loaded.version}",
    )
    splits = len(loaded.test_lengths(task))
    print(f"{task} of suite {loaded.name}: {train_examples} training examples and {splits} test splits in {out}")
