"""``lprime data`` writes the very examples that the harness trains and tests on: what enters the model is compared by row."""

import datasets
import pytest
import torch
from support import suite_dict

from bench import model
from bench.batches import Batch
from bench.cli import main
from bench.runs import Run
from bench.suite import Suite, validated
from bench.work import execute
from tasks import PAD


def rows(batch: Batch) -> list[list[int]]:
    """What enters the model: tokens by the rectangles that attention sees, which must be the same as by its rows."""
    cells = torch.cat([part.flatten() for part in batch.tokens])
    found = [row[row != PAD].tolist() for part in batch.tokens for row in part]
    assert [t for row in found for t in row] == (
        cells if batch.layout.cell_of is None else cells[batch.layout.cell_of]
    ).tolist()
    return found


@pytest.mark.parametrize("task", ["copying", "addition"])
def test_what_is_written_is_what_the_model_meets(tiny, tmp_path, monkeypatch, task):
    variant = {"copying": "repeat", "addition": "reversed"}[task]
    changes = {"recipe": {"steps": 4, "batch": 12}, "tasks": [{"task": task, "variant": variant, "train_length": 4}]}
    suite = validated(Suite, suite_dict(**changes), "suite")
    met: dict[bool, list[list[list[int]]]] = {True: [], False: []}
    read = model.Decoder.read

    def spy(self, batch, nominal, generator=None):
        met[self.training].append(rows(batch))
        return read(self, batch, nominal, generator)

    monkeypatch.setattr(model.Decoder, "read", spy)
    execute(Run(suite, task, "nope", 3), tmp_path / "runs", "cpu")

    with pytest.raises(SystemExit) as done:
        main(
            [
                "data",
                task,
                "--suite",
                str(tiny(**changes)),
                "--out",
                str(tmp_path / "data"),
                "--train-examples",
                "48",
                "--seed",
                "3",
            ]
        )
    assert done.value.code == 0
    written = datasets.load_from_disk(str(tmp_path / "data"))
    for step, trained in enumerate(met[True]):
        assert sorted(trained) == sorted(written["train"]["ids"][step * 12 : (step + 1) * 12])
    assert len(met[True]) == 4
    for tested, n in zip(met[False], suite.test_lengths(task), strict=True):
        assert sorted(tested) == sorted(written[f"test_{n}"]["ids"])
    assert set(written) == {"train"} | {f"test_{n}" for n in suite.test_lengths(task)}
