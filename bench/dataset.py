"""A task of a suite as a Hugging Face ``DatasetDict``: the test examples of runs, and the first training examples of a seed.

``load_from_disk(directory)`` gives the splits ``train`` and ``test_<length>`` with the columns ``ids`` (token ids, no padding),
``text`` (symbols separated by blanks), ``answer`` (the part of the text after ``<sep>``, without ``<eos>``), ``length`` and
``answer_start`` (index of the first id after ``<sep>``).
"""

from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from datasets import Dataset, DatasetDict, disable_progress_bars
from jinja2 import Environment

from tasks import EOS, PAD, SEP, Examples, InputError, Task, Vocabulary, content_hash, train_batch
from tasks.base import SPECIALS

from .files import folder_atomic
from .suites.suite import Suite


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
    """Write the splits of a task and a dataset card to ``directory``, atomically.

    Arguments:
        directory: must not exist, or be empty. Missing parents are created.
        train_examples, seed: as in ``task_splits``.

    Returns:
        The absolute path of the directory.

    Raises:
        InputError: no such task of the suite, no training examples, a directory that is not empty or cannot be written (no
            permission, no space). Nothing is left behind.
    """
    directory = Path(directory).resolve()
    splits, made = task_splits(suite, task, train_examples, seed), suite.make_task(task)
    about, length, symbols = made.variants[made.variant], suite.spec(task).train_length, " ".join(made.vocabulary.symbols)
    template = (resources.files("bench") / "templates/dataset.md.j2").read_text(encoding="utf-8")
    card = Environment(keep_trailing_newline=True).from_string(template)
    text = card.render(task=task, suite=suite, made=made, about=about, length=length, seed=seed, symbols=symbols)
    disable_progress_bars()
    with folder_atomic(directory) as folder:
        splits.save_to_disk(folder)
        (folder / "README.md").write_text(text, encoding="utf-8")
    return directory


def task_splits(suite: Suite, task: str, train_examples: int, seed: int) -> TaskData:
    """The splits of a task.

    Arguments:
        train_examples: size of the training split: the batches of the steps 0, 1, …, of which the last is cut.
        seed: training seed.

    Raises:
        InputError: no such task of the suite, or no training examples.
    """
    if train_examples < 1:
        raise InputError(f"train_examples must be at least 1, got {train_examples}")
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
    ids: list[np.ndarray] = []
    sizes: list[np.ndarray] = []
    lengths: list[np.ndarray] = []
    starts: list[np.ndarray] = []
    texts: list[str] = []
    symbols = np.array(task.vocabulary.symbols, dtype=object)

    def collect(examples: Examples) -> Examples:
        flat = examples.tokens[np.arange(examples.tokens.shape[1]) < examples.sizes[:, None]]
        ids.append(flat.astype(np.int32))
        sizes.append(examples.sizes)
        lengths.append(examples.lengths)
        starts.append(examples.answer_start)
        names, ends = symbols[flat].tolist(), examples.sizes.cumsum().tolist()
        texts.extend(" ".join(names[start:end]) for start, end in pairwise([0, *ends]))
        return examples

    digest = content_hash(map(collect, sets))
    sep, eos = f" {SPECIALS[SEP]} ", f" {SPECIALS[EOS]}"
    offsets = np.concatenate([[0], np.concatenate(sizes).cumsum()])
    table = pa.table(
        {
            "ids": pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(np.concatenate(ids))),
            "text": texts,
            "answer": [text[text.index(sep) + len(sep) : -len(eos)] for text in texts],
            "length": pa.array(np.concatenate(lengths), pa.int32()),
            "answer_start": pa.array(np.concatenate(starts), pa.int32()),
        }
    )
    # Without a fingerprint, datasets would hash the whole table again, together with the current time.
    return Dataset(table, fingerprint=digest[:16])
