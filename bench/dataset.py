"""Hugging Face dataset folders, and a task of a suite as one: the test examples of runs, and the first training examples of a
seed, as the splits ``train`` and ``test_<length>`` with the columns ``COLUMNS``.
"""

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset, DatasetDict, disable_progress_bars

from tasks import EOS, PAD, Examples, InputError, Task, Vocabulary, train_batch

from .files import folder_atomic, render
from .suites.suite import Suite

MOST_EXAMPLES = 10_000_000
"""Training examples of one dataset, which is built in memory: some gigabytes."""
COLUMNS = {
    "ids": "token ids, without padding",
    "text": "their symbols, separated by blanks",
    "answer": "the symbols after `<sep>`, without `<eos>`",
    "length": "length of the example, in the task's units",
    "answer_start": "index of the first id after `<sep>`",
}


class TaskData(DatasetDict):
    """The splits of a task, with what a training needs to know of it: ``vocabulary.ids["<pad>"]`` is the id of a symbol,
    ``task.longest`` is L′, ``task.chance(length)`` the exact match of a guess; the fingerprint is of the suite."""

    task: Task
    vocabulary: Vocabulary
    train_length: int
    fingerprint: str

    @staticmethod
    def collate(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """A batch for a causal model, as ``transformers`` takes it: tensors [B, T], padded on the right; ``labels`` are the ids
        of the answer and ``<eos>``, and −100, which does not count, elsewhere."""
        import torch

        ids = [torch.tensor(row["ids"]) for row in rows]
        tokens = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=PAD)
        prompt = torch.arange(tokens.shape[1]) < torch.tensor([row["answer_start"] for row in rows])[:, None]
        labels = tokens.masked_fill(prompt | (tokens == PAD), -100)
        return {"input_ids": tokens, "attention_mask": (tokens != PAD).long(), "labels": labels}


def export(suite: Suite, task: str, directory: str | Path, train_examples: int, seed: int) -> Path:
    """Write the splits of a task: see ``task_splits`` and ``write_hub``."""
    splits = task_splits(suite, task, train_examples, seed)
    about = {"suite": suite, "task": splits.task, "train_length": splits.train_length, "seed": seed}
    return write_hub(directory, splits, COLUMNS, "templates/task.md.j2", **about)


def write_hub(
    directory: str | Path, splits: Mapping[str, Dataset], meanings: Mapping[str, str], card: str, **about: object
) -> Path:
    """Write a folder for ``datasets.load_dataset(directory)``, atomically: a parquet file for each split, and README.md.

    Arguments:
        directory: must not exist, or be empty. Missing parents are created.
        meanings: of the columns.
        card, about: template of README.md, and its values.

    Returns:
        The absolute path of the directory.

    Raises:
        InputError: a directory that is not empty or cannot be written (no permission, no space). Nothing is left behind.
    """
    directory, schema = Path(directory).resolve(), next(iter(splits.values())).data.schema
    text = render(card, splits=splits, schema=schema, meanings=meanings, version=version("lprime"), **about)
    disable_progress_bars()
    with folder_atomic(directory) as folder:
        for name, split in splits.items():
            split.to_parquet(folder / f"{name}.parquet")
        (folder / "README.md").write_text(text, encoding="utf-8")
    return directory


def task_splits(suite: Suite, task: str, train_examples: int, seed: int) -> TaskData:
    """The splits of a task.

    Arguments:
        train_examples: size of the training split: the batches of the steps 0, 1, …, of which the last is cut.
        seed: training seed.

    Raises:
        InputError: no such task of the suite, no training examples, or more than ``MOST_EXAMPLES``.
    """
    if not 1 <= train_examples <= MOST_EXAMPLES:
        raise InputError(f"train_examples must be at least 1 and at most {MOST_EXAMPLES:,}, got {train_examples:,}")
    made, train_length, recipe = suite.make_task(task), suite.spec(task).train_length, suite.recipe_for(task)
    shortest = train_length if recipe.lengths == "L" else 1
    last = (train_examples - 1) // recipe.batch
    train = (train_batch(made, train_length, recipe.batch, seed, step, shortest) for step in range(last + 1))
    cut = (b.rows(slice(train_examples - last * recipe.batch)) if step == last else b for step, b in enumerate(train))
    tests = {f"test_{length}": split(made, [examples]) for length, examples in suite.test_sets(task).items()}
    data = TaskData({"train": split(made, cut)} | tests)
    data.task, data.vocabulary, data.train_length, data.fingerprint = made, made.vocabulary, train_length, suite.fingerprint
    return data


def split(task: Task, sets: Iterable[Examples]) -> Dataset:
    """One split."""
    symbols, rows = np.array(task.vocabulary.symbols, dtype=object), []
    for examples in sets:
        numbers = (column.astype(np.int32) for column in (examples.lengths, examples.answer_start))
        for tokens, size, length, start in zip(examples.tokens, examples.sizes, *numbers, strict=True):
            words = symbols[tokens[:size]]
            answer = words[start : size - (tokens[size - 1] == EOS)]
            texts = {"text": " ".join(words), "answer": " ".join(answer)}
            rows.append({"ids": tokens[:size].astype(np.int32), **texts, "length": length, "answer_start": start})
    return Dataset.from_list(rows)
