"""A task of a suite as a Hugging Face ``DatasetDict``: the test examples of runs, and the first training examples of a seed.

``load_from_disk(directory)`` gives the splits ``train`` and ``test_<length>`` with the columns ``ids`` (token ids, no padding),
``text`` (symbols separated by blanks), ``answer`` (the part of the text after ``<sep>``, without ``<eos>``) and ``length``.
"""

import inspect
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tasks import EOS, SEP, Examples, InputError, Task, content_hash, train_batch
from tasks.base import SPECIALS

from .files import folder_atomic
from .suites.suite import Suite

if TYPE_CHECKING:
    from datasets import Dataset

CARD = """---
license: apache-2.0
pretty_name: {quoted_title}
task_categories: [text-generation]
tags: [synthetic, length-generalization, positional-encoding]
configs:
- config_name: default
  data_files:
{files}
---

# {title}

{about}

## Format

Read it with `datasets.load_from_disk(directory)` or `datasets.load_dataset(directory)`. The examples are synthetic.

This dataset is the variant `{variant}`: {variant_is}. Length counts {length_is}. Each row is one sequence
`<bos> prompt <sep> answer <eos>`; a model must predict the answer and `<eos>`. The first training row:

    {shown}

| column | holds |
|---|---|
| `ids` | token ids, without padding |
| `text` | their symbols, separated by blanks |
| `answer` | the symbols of the answer, without `<eos>` |
| `length` | length of the example |

Vocabulary: {size} symbols in the order of their ids, starting at 0:

    {symbols}

## Splits

Training lengths are {train_lengths}; the name of a test split contains its length. The content hash is
`tasks.content_hash` of the example sets of the split: the training batches in order, or the one test set.

| split | examples | content hash (SHA-256) |
|---|---|---|
{splits}

## Recipe

{recipe}
"""


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
    with folder_atomic(directory) as folder, no_progress_bars():
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise InputError(f"{directory} exists and is not an empty directory; choose another")
        splits = task_splits(suite, task, train_examples, seed)

        # Heavy import, needed only here.
        from datasets import DatasetDict

        DatasetDict({name: data for name, (data, _) in splits.items()}).save_to_disk(folder)
        (folder / "README.md").write_text(card(suite, task, splits, seed), encoding="utf-8")
    return directory


def task_splits(suite: Suite, task: str, train_examples: int, seed: int) -> dict[str, tuple["Dataset", str]]:
    """The splits of a task, each with its content hash.

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
    return {"train": split(made, cut)} | tests


def split(task: Task, sets: Iterable[Examples]) -> tuple["Dataset", str]:
    """Return one split, and the content hash of its example sets."""
    import pyarrow as pa  # type: ignore[import-untyped]
    from datasets import Dataset

    ids: list[np.ndarray] = []
    sizes: list[np.ndarray] = []
    lengths: list[np.ndarray] = []
    texts: list[str] = []
    symbols = np.array(task.vocabulary.symbols, dtype=object)

    def collect(examples: Examples) -> Examples:
        flat = examples.tokens[np.arange(examples.tokens.shape[1]) < examples.sizes[:, None]]
        ids.append(flat.astype(np.int32))
        sizes.append(examples.sizes)
        lengths.append(examples.lengths)
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
        }
    )
    # Without a fingerprint, datasets would hash the whole table again, together with the current time.
    return Dataset(table, fingerprint=digest[:16]), digest


def card(suite: Suite, task: str, splits: Mapping[str, tuple["Dataset", str]], seed: int) -> str:
    """Return the text of the dataset card, README.md."""
    made, train_length, used = suite.make_task(task), suite.spec(task).train_length, suite.recipe_for(task)
    title = f"lprime {task}, suite {suite.name} version {suite.version}"
    recipe = {
        "task": task,
        "variant": made.variant,
        "version": made.version,
        "longest": made.longest,
        "train_length": train_length,
        "seed": seed,
        "batch": used.batch,
        "test_seed": suite.test_seed,
    }
    about = inspect.getdoc(inspect.getmodule(type(made))) or ""
    return CARD.format(
        title=title,
        quoted_title=json.dumps(title, ensure_ascii=False),
        files="\n".join(f'  - split: {name}\n    path: "{name}/*.arrow"' for name in splits),
        about=about.replace("::\n", ":\n"),
        variant=made.variant,
        variant_is=made.variants[made.variant],
        length_is=made.length_is,
        shown=splits["train"][0][0]["text"],
        size=len(made.vocabulary),
        symbols=" ".join(made.vocabulary.symbols),
        train_lengths=f"all {train_length}" if used.lengths == "L" else f"uniform in 1 … {train_length}",
        splits="\n".join(f"| `{name}` | {len(data)} | `{digest}` |" for name, (data, digest) in splits.items()),
        recipe="\n".join(f"- {name}: {value}" for name, value in recipe.items()),
    )


@contextmanager
def no_progress_bars() -> Iterator[None]:
    """Disable the progress bars of datasets in this block."""
    import datasets

    were_disabled = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if not were_disabled:
            datasets.enable_progress_bars()
