"""Export a task as a Hugging Face ``DatasetDict`` on disk, with exactly the examples that runs train and test on.

``load_from_disk(directory)`` gives the splits ``train`` and ``test_<length>`` with the columns ``ids`` (token ids, no padding),
``text`` (symbols separated by blanks), ``answer`` (the part of the text after ``<sep>``, without ``<eos>``) and ``length``.
"""

import inspect
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .base import EOS, SEP, SPECIALS, Examples, Task
from .errors import InputError
from .splits import content_hash, test_set, train_batch

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

Read it with `datasets.load_from_disk(directory)` or `datasets.load_dataset(directory)`.

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

Training lengths are uniform in 1 … {train_length}; the name of a test split contains its length. The content hash is
`tasks.content_hash` of the example sets of the split: the training batches in order, or the one test set.

| split | examples | content hash (SHA-256) |
|---|---|---|
{splits}

## Recipe

{recipe}

## License

Apache-2.0. The examples are synthetic and contain no personal data.
"""


def export(
    task: Task,
    directory: str | Path,
    *,
    train_length: int,
    test_lengths: Sequence[int],
    test_count: int,
    test_seed: int,
    seed: int,
    batch: int,
    train_examples: int,
    title: str | None = None,
) -> Path:
    """Write the splits of a task and a dataset card to ``directory``, atomically.

    Arguments:
        directory: must not exist, or be empty. Missing parents are created.
        train_length: training examples have lengths uniform in 1 … this.
        test_lengths: one split each, of ``test_count`` examples drawn with ``test_seed``.
        seed, batch: the training split is ``train_batch(task, train_length, batch, seed, step)`` for step = 0, 1, …
        train_examples: size of the training split; the last batch is cut.
        title: title of the dataset card; task and variant by default.

    Returns:
        The absolute path of the directory.

    Raises:
        InputError: a count below 1, a length that the task cannot sample, a directory that is not empty or cannot be written
            (no permission, no space). Nothing is left behind.
    """
    directory = Path(directory).resolve()
    with _write_errors(directory):
        if directory.exists() and not (directory.is_dir() and not any(directory.iterdir())):
            raise InputError(f"{directory} exists and is not an empty directory; choose another")
    splits = task_splits(
        task,
        train_length=train_length,
        test_lengths=test_lengths,
        test_count=test_count,
        test_seed=test_seed,
        seed=seed,
        batch=batch,
        train_examples=train_examples,
    )

    # Heavy import, needed only here.
    from datasets import DatasetDict

    recipe = {
        "task": task.name,
        "variant": task.variant,
        "version": task.version,
        "longest": task.longest,
        "train_length": train_length,
        "seed": seed,
        "batch": batch,
        "test_seed": test_seed,
    }
    card = _card(task, title or f"lprime: {task.title} ({task.variant})", splits, recipe)
    with (
        _write_errors(directory),
        _parents(directory),
        tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{directory.name}.", ignore_cleanup_errors=True) as scratch,
        no_progress_bars(),
    ):
        # In a subdirectory, since a temporary directory itself is readable only by its owner.
        dataset = Path(scratch) / "dataset"
        DatasetDict({name: data for name, (data, _) in splits.items()}).save_to_disk(dataset)
        (dataset / "README.md").write_text(card, encoding="utf-8")
        dataset.rename(directory)
    return directory


def task_splits(
    task: Task,
    *,
    train_length: int,
    test_lengths: Sequence[int],
    test_count: int,
    test_seed: int,
    seed: int,
    batch: int,
    train_examples: int,
) -> dict[str, tuple["Dataset", str]]:
    """The splits of a task, each with its content hash; arguments as in ``export``.

    Raises:
        InputError: a count below 1, or a length that the task cannot sample.
    """
    for name, count in {"train_examples": train_examples, "batch": batch, "test_count": test_count}.items():
        if count < 1:
            raise InputError(f"{name} must be at least 1, got {count}")
    last = (train_examples - 1) // batch
    train = (train_batch(task, train_length, batch, seed, step) for step in range(last + 1))
    cut = (b.rows(slice(train_examples - last * batch)) if step == last else b for step, b in enumerate(train))
    tests = {f"test_{length}": _split(task, [test_set(task, length, test_count, test_seed)]) for length in test_lengths}
    return {"train": _split(task, cut)} | tests


def _split(task: Task, sets: Iterable[Examples]) -> tuple["Dataset", str]:
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
        texts.extend([" ".join(names[start:end]) for start, end in zip([0, *ends], ends, strict=False)])
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


def _card(task: Task, title: str, splits: Mapping[str, tuple["Dataset", str]], recipe: Mapping[str, object]) -> str:
    """Return the text of the dataset card, README.md."""
    about = inspect.getdoc(inspect.getmodule(type(task))) or ""
    return CARD.format(
        title=title,
        quoted_title=json.dumps(title, ensure_ascii=False),
        files="\n".join(f'  - split: {name}\n    path: "{name}/*.arrow"' for name in splits),
        about=about.replace("::\n", ":\n"),
        variant=task.variant,
        variant_is=task.variants[task.variant],
        length_is=task.length_is,
        shown=splits["train"][0][0]["text"],
        size=len(task.vocabulary),
        symbols=" ".join(task.vocabulary.symbols),
        train_length=recipe["train_length"],
        splits="\n".join(f"| `{name}` | {len(data)} | `{digest}` |" for name, (data, digest) in splits.items()),
        recipe="\n".join(f"- {name}: {value}" for name, value in recipe.items()),
    )


@contextmanager
def _write_errors(directory: Path) -> Iterator[None]:
    """Report errors of the file system as user errors."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write to {directory}: {' '.join(str(error).split())}") from error


@contextmanager
def _parents(directory: Path) -> Iterator[None]:
    """Create the parents of a directory, and remove them again if the block fails."""
    missing = [parent for parent in directory.parents if not parent.exists()]
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for parent in missing:
            with suppress(OSError):
                parent.rmdir()
        raise


@contextmanager
def no_progress_bars() -> Iterator[None]:
    """Disable the progress bars of datasets in this block."""
    import datasets

    if datasets.are_progress_bars_disabled():
        yield
        return
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        datasets.enable_progress_bars()
