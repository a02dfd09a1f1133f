"""A task of a suite as a Hugging Face ``DatasetDict``: the test examples of runs, and the first training examples of a seed.

``load_from_disk(directory)`` gives the splits ``train`` and ``test_<length>`` with the columns ``ids`` (token ids, no padding),
``text`` (symbols separated by blanks), ``answer`` (the part of the text after ``<sep>``, without ``<eos>``) and ``length``.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tasks import Examples, InputError, Task, content_hash, train_batch

from .files import folder_atomic
from .suites.suite import Suite

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

MOST_EXAMPLES = 10_000_000
"""Training examples of one dataset, which is built in memory: some gigabytes."""
CARD = """# lprime {task}, suite {suite.name} version {suite.version}

Variant `{made.variant}`: {about}. Length counts {made.length_is}. Trained at L = {length}; training seed {seed}, test seed
{suite.test_seed}. Read it with `datasets.load_from_disk(directory)`.

| column | holds |
|---|---|
| `ids` | token ids, without padding |
| `text` | their symbols, separated by blanks |
| `answer` | the symbols of the answer, without `<eos>` |
| `length` | length of the example |

Symbols in the order of their ids: {symbols}
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
    from datasets import disable_progress_bars

    directory = Path(directory).resolve()
    splits, made = task_splits(suite, task, train_examples, seed), suite.make_task(task)
    about, length, symbols = made.variants[made.variant], suite.spec(task).train_length, " ".join(made.vocabulary.symbols)
    text = CARD.format(task=task, suite=suite, made=made, about=about, length=length, seed=seed, symbols=symbols)
    disable_progress_bars()
    with folder_atomic(directory) as folder:
        splits.save_to_disk(folder)
        (folder / "README.md").write_text(text, encoding="utf-8")
    return directory


def task_splits(suite: Suite, task: str, train_examples: int, seed: int) -> "DatasetDict":
    """The splits of a task.

    Arguments:
        train_examples: size of the training split: the batches of the steps 0, 1, …, of which the last is cut.
        seed: training seed.

    Raises:
        InputError: no such task of the suite, no training examples, or more than ``MOST_EXAMPLES``.
    """
    from datasets import DatasetDict

    if not 1 <= train_examples <= MOST_EXAMPLES:
        raise InputError(f"train_examples must be at least 1 and at most {MOST_EXAMPLES:,}, got {train_examples:,}")
    made, train_length, recipe = suite.make_task(task), suite.spec(task).train_length, suite.recipe_for(task)
    shortest = train_length if recipe.lengths == "L" else 1
    last = (train_examples - 1) // recipe.batch
    train = (train_batch(made, train_length, recipe.batch, seed, step, shortest) for step in range(last + 1))
    cut = (b.rows(slice(train_examples - last * recipe.batch)) if step == last else b for step, b in enumerate(train))
    tests = {f"test_{length}": split(made, [examples]) for length, examples in suite.test_sets(task).items()}
    return DatasetDict({"train": split(made, cut)} | tests)


def split(task: Task, sets: Iterable[Examples]) -> "Dataset":
    """One split, with the content hash of its example sets as its fingerprint."""
    from datasets import Dataset

    rows: dict[str, list] = {"ids": [], "text": [], "answer": [], "length": []}
    symbols = np.array(task.vocabulary.symbols, dtype=object)

    def collect(examples: Examples) -> Examples:
        for tokens, start, size in zip(examples.tokens, examples.answer_start, examples.sizes, strict=True):
            words = symbols[tokens[:size]]
            rows["ids"].append(tokens[:size].astype(np.int32))
            rows["text"].append(" ".join(words))
            rows["answer"].append(" ".join(words[start:-1]))
        rows["length"].extend(examples.lengths.astype(np.int32))
        return examples

    digest = content_hash(map(collect, sets))
    table = Dataset.from_dict(rows).data
    # Without a fingerprint, datasets would hash the whole table again, together with the current time.
    return Dataset(table, fingerprint=digest[:16])
