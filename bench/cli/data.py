"""``lprime data``: a task's examples as a Hugging Face dataset."""

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command()(data)


def data(
    task: Annotated[str, typer.Argument(metavar="TASK", help="One of the suite's tasks.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A new folder for the dataset.")],
    suite: Annotated[str, typer.Option(metavar="SUITE", help="Whose lengths, test sets and batches.")] = "small",
    train_examples: Annotated[int, typer.Option(metavar="N", help="Training examples to write.")] = 10_000,
    seed: Annotated[int, typer.Option(metavar="N", help="Training seed.")] = 0,
) -> None:
    """Write the very examples that runs train and are tested on, for datasets.load_from_disk."""
    from bench.suite import load_suite
    from tasks import InputError
    from tasks.export import export

    if seed < 0:
        raise InputError(f"a seed must be 0 or more, got {seed}")
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
