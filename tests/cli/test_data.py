"""``lprime data`` writes exactly the examples that the harness trains and tests on, compared at the input of the model."""

import datasets
import pytest
from commands import printed
from support import suite_dict

from bench.runs.run import Run
from bench.runs.run_one import run_one
from bench.suites.suite import Suite, validated
from bench.training import model
from bench.training.batches import Batch
from tasks import PAD


def rows(batch: Batch) -> list[list[int]]:
    """What enters the model: tokens by the rectangle that attention sees, which must be the same as by its rows.

    After these come copies of padding, which round the number of rows.
    """
    cells = batch.tokens.flatten()
    found = [row[row != PAD].tolist() for row in batch.tokens]
    packed = (cells if batch.layout.cell_of is None else cells[batch.layout.cell_of]).tolist()
    tokens = [t for row in found for t in row]
    assert packed[: len(tokens)] == tokens and set(packed[len(tokens) :]) <= {PAD}
    return found


@pytest.mark.parametrize(("task", "variant", "lengths"), [("copying", "repeat", "L"), ("addition", "reversed", "uniform 1..L")])
def test_the_dataset_has_the_examples_of_the_model(tiny, tmp_path, monkeypatch, task, variant, lengths):
    changes = {
        "recipe": {"steps": 4, "batch": 12, "lengths": lengths},
        "tasks": [{"task": task, "variant": variant, "train_length": 4}],
    }
    suite = validated(Suite, suite_dict(**changes), "suite")
    met: dict[bool, list[list[list[int]]]] = {True: [], False: []}
    read = model.Decoder.target_states

    def spy(self, batch, announced_length, generator=None):
        met[self.training].append(rows(batch))
        return read(self, batch, announced_length, generator)

    monkeypatch.setattr(model.Decoder, "target_states", spy)
    run_one(Run(suite, task, "nope", 3), tmp_path / "runs", "cpu")

    where = ("--suite", tiny(**changes), "--to", tmp_path / "data")
    assert "48 training examples" in printed("data", task, *where, "--train-examples", 48, "--seed", 3)
    written = datasets.load_dataset(str(tmp_path / "data"), cache_dir=tmp_path / "cache")
    for step, trained in enumerate(met[True]):
        assert sorted(trained) == sorted(written["train"]["ids"][step * 12 : (step + 1) * 12])
    assert len(met[True]) == 4
    for tested, n in zip(met[False], suite.test_lengths(task), strict=True):
        assert sorted(tested) == sorted(written[f"test_{n}"]["ids"])
    assert set(written) == {"train"} | {f"test_{n}" for n in suite.test_lengths(task)}
