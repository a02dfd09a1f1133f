"""``lprime.evaluate_model`` against the harness, a perfect model written by hand, and models that it must refuse."""

from types import SimpleNamespace

import pytest
import torch
import yaml
from support import suite_dict

import lprime
from tasks import EOS, SEP, InputError

torch.set_num_threads(1)


@pytest.fixture
def here(here, fresh_registry):
    """A folder with a suite of one-second runs."""
    (here / "seconds.yaml").write_text(yaml.safe_dump(suite_dict(name="seconds")))
    return here


def copier(ids: torch.Tensor) -> torch.Tensor:
    """Logits of the right answers of copying, from the prompt."""
    logits = torch.zeros(*ids.shape, 12)
    for row, out in zip(ids.tolist(), logits, strict=True):
        sep = row.index(SEP) if SEP in row else len(row)
        for place in range(sep, len(row)):
            out[place, row[1 + place - sep] if place - sep < sep - 1 else EOS] = 9.0
    return logits


def test_a_model_of_the_harness_gets_its_own_scores(here):
    expected = lprime.evaluate("rope", "seconds.yaml", "copying", quiet=True)
    model = lprime.train("rope", "seconds.yaml", "copying")
    found = lprime.evaluate_model(lambda ids: model.logits(model(ids, 1)), "seconds.yaml", "copying", name="mine")
    columns = ["task", "length", "exact", "chance", "token_chance", "fingerprint", "weight"]
    assert found[columns].equals(expected[columns]) and list(found.columns) == list(expected.columns)
    assert found["nll"].to_numpy() == pytest.approx(expected["nll"].to_numpy(), rel=1e-4)
    assert set(found["encoding"]) == {"mine"} and set(found["origin"]) == {"model"}
    lprime.plot(found)


def test_a_perfect_model_is_right_at_every_length(here):
    frame = lprime.evaluate_model(lambda ids: SimpleNamespace(logits=copier(ids)), "copying", lengths=[3, 40, 9])
    assert frame["length"].tolist() == [3, 9, 40] and frame["exact"].tolist() == [1, 1, 1]
    assert set(frame["suite"]) == {"small"} and set(frame["fingerprint"]) == {"c3958388dc00f09e"}
    own = lprime.evaluate_model(copier, "seconds.yaml", "copying", lengths=[2])
    assert own["exact"].tolist() == [1] and own["weight"].tolist() == [0], "no length is beyond L"


@pytest.mark.parametrize(
    ("model", "lengths", "message"),
    [
        (lambda ids: copier(ids.flip(1)).flip(1), None, "the model is not causal"),
        (lambda ids: copier(ids)[..., :5], None, r"logits of shape \[16, 7, 5\]; expected \[16, 7, 12 or more\]"),
        (lambda ids: copier(ids)[:, -1], None, r"logits of shape \[16, 12\]"),
        (copier, [1, 99], "length must be in 1 … 8, got 99"),
    ],
)
def test_other_models_are_refused(here, model, lengths, message):
    with pytest.raises(InputError, match=message):
        lprime.evaluate_model(model, "seconds.yaml", "copying", lengths=lengths)
