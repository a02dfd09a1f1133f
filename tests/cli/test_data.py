"""``lprime data`` writes the very examples that the harness trains and tests on: what enters the model is compared by row."""

import datasets
import pytest
import torch
from support import suite_dict

from bench import model, train
from bench.cli import main
from bench.runs import Run
from bench.suite import Suite, validated
from bench.work import execute
from tasks import PAD


def rows(tokens: torch.Tensor) -> list[list[int]]:
    return [row[row != PAD].tolist() for row in tokens]


@pytest.mark.parametrize("task", ["copying", "addition"])
def test_what_is_written_is_what_the_model_meets(tiny, tmp_path, monkeypatch, task):
    variant = {"copying": "repeat", "addition": "reversed"}[task]
    changes = {"recipe": {"steps": 4, "batch": 12}, "tasks": [{"task": task, "variant": variant, "train_length": 4}]}
    suite = validated(Suite, suite_dict(**changes), "suite")
    met: dict[bool, list[list[list[int]]]] = {True: [], False: []}
    forward = model.Decoder.forward

    def spy(self, tokens, nominal, generator=None):
        met[self.training].append(rows(tokens))
        return forward(self, tokens, nominal, generator)

    monkeypatch.setattr(model.Decoder, "forward", spy)
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
    groups = train.GROUPS["cpu"]
    for step in range(4):
        trained = [row for group in met[True][step * groups : (step + 1) * groups] for row in group]
        assert sorted(trained) == sorted(written["train"]["ids"][step * 12 : (step + 1) * 12])
    assert len(met[True]) == 4 * groups
    tested = [row for batch in met[False] for row in batch]
    assert tested == [row for n in suite.test_lengths(task) for row in written[f"test_{n}"]["ids"]]
    assert set(written) == {"train"} | {f"test_{n}" for n in suite.test_lengths(task)}
