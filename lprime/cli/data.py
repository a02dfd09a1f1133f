"""``lprime data``: a task's examples as a Hugging Face dataset."""

from pathlib import Path
from typing import Annotated

import typer

from .completion import complete_task
from .options import OfSuite


def data(
    task: Annotated[str, typer.Argument(metavar="TASK", help="One of the suite's tasks.", autocompletion=complete_task)],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="A new folder for the dataset.")],
    suite: OfSuite = "small",
    train_examples: Annotated[int, typer.Option(metavar="N", help="Training examples to write.")] = 10_000,
    seed: Annotated[int, typer.Option(metavar="N", help="Training seed.")] = 0,
) -> None:
    """Write a task's examples as a Hugging Face dataset.

    They are exactly the training and test examples of runs; read them with datasets.load_from_disk.
    """
    from bench.suites.suite import load_suite
    from lprime.api.tables import split_settings
    from tasks.export import export

    loaded = load_suite(suite)
    title = f"lprime {task}, suite {loaded.name} version {loaded.version}"
    settings = split_settings(loaded, task, train_examples, seed)
    export(loaded.make_task(task), to, **settings, title=title)
    splits = len(loaded.test_lengths(task))
    print(f"{task} of suite {loaded.name}: {train_examples} training examples and {splits} test splits in {to}")
