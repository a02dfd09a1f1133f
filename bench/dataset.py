"""Hugging Face dataset folders, and a task of a suite as one: the test examples of runs, and the first training examples of a
seed, as the splits ``train`` and ``test_<length>`` with the columns ``COLUMNS``.
"""

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset, DatasetDict, disable_progress_bars

from tasks import EOS, PAD, Examples, InputError, Task, Vocabulary, content_hash, train_batch

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
    """Write the splits of a task: see ``task_splits`` and ``write_hub``, which refuse what they cannot write.

    Returns:
        The absolute path of the directory.
    """
    splits, made = task_splits(suite, task, train_examples, seed), suite.make_task(task)
    about = (
        f"Variant `{made.variant}`: {made.variants[made.variant]}. Length counts {made.length_is}. Trained at L = "
        f"{splits.train_length}; training seed {seed}, test seed {suite.test_seed}. Symbols in the order of their ids:\n\n"
        f"    {' '.join(made.vocabulary.symbols)}\n\n"
    )
    note = f"suite {suite.name} version {suite.version}, fingerprint {suite.fingerprint}"
    return write_hub(directory, splits, f"lprime {task}, suite {suite.name} version {suite.version}", about, note, COLUMNS)


def write_hub(
    directory: str | Path, splits: Mapping[str, Dataset], title: str, about: str, note: str, meanings: Mapping[str, str]
) -> Path:
    """Write a folder for ``datasets.load_dataset(directory)``, atomically: a parquet file for each split, and README.md.

    Arguments:
        directory: must not exist, or be empty. Missing parents are created.
        about, note: sentences of the card, and the note of its citation.
        meanings: of the columns.

    Returns:
        The absolute path of the directory.

    Raises:
        InputError: a directory that is not empty or cannot be written (no permission, no space). Nothing is left behind.
    """
    directory, (table, *_) = Path(directory).resolve(), (one.data for one in splits.values())
    schema = [(field.name, field.type, meanings.get(field.name, "")) for field in table.schema]
    texts = {"title": title, "about": about, "note": note, "version": version("lprime")}
    disable_progress_bars()
    with folder_atomic(directory) as folder:
        for name, split in splits.items():
            split.to_parquet(folder / f"{name}.parquet")
        (folder / "README.md").write_text(render("dataset.md.j2", **texts, splits=splits, schema=schema), encoding="utf-8")
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
    """One split, with the content hash of its example sets as its fingerprint."""
    rows: dict[str, list] = {"ids": [], "text": [], "answer": [], "length": [], "answer_start": []}
    symbols = np.array(task.vocabulary.symbols, dtype=object)

    def collect(examples: Examples) -> Examples:
        for tokens, start, size in zip(examples.tokens, examples.answer_start, examples.sizes, strict=True):
            words = symbols[tokens[:size]]
            rows["ids"].append(tokens[:size].astype(np.int32))
            rows["text"].append(" ".join(words))
            rows["answer"].append(" ".join(words[start : size - (tokens[size - 1] == EOS)]))
        rows["length"].extend(examples.lengths.astype(np.int32))
        rows["answer_start"].extend(examples.answer_start.astype(np.int32))
        return examples

    digest = content_hash(map(collect, sets))
    table = Dataset.from_dict(rows).data
    # Without a fingerprint, datasets would hash the whole table again, together with the current time.
    return Dataset(table, fingerprint=digest[:16])
