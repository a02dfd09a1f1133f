"""Conditions of a suite: each changes one thing, is a suite of its own, and is found by its name."""

import pytest
import yaml
from support import suite_dict

from bench.suites.suite import Suite, is_shipped, load_suite, validated
from bench.suites.vary import condition_title
from tasks import InputError

TASKS = [
    {"task": "copying", "variant": "repeat", "train_length": 4, "recipe": {"steps": 50, "weight_decay": 1}},
    {"task": "parity", "variant": "answer", "train_length": 6},
]


def vary(**conditions):
    return {"encodings": ["nope", "rope"], "seeds": [0, 3], "conditions": conditions}


def differences(one, other, path=""):
    """The leaves in which two nested contents differ: path → values."""
    if isinstance(one, dict):
        keys = one.keys() | other.keys()
        return {k: v for key in keys for k, v in differences(one.get(key), other.get(key), f"{path}.{key}").items()}
    if isinstance(one, list) and one and isinstance(one[0], dict):
        pairs = enumerate(zip(one, other, strict=True))
        return {k: v for i, pair in pairs for k, v in differences(*pair, f"{path}.{i}").items()}
    return {} if one == other else {path: (one, other)}


@pytest.mark.parametrize(
    ("field", "value", "name", "changed"),
    [
        ("learning_rate", "x0.5", "x0.5", {".recipe.learning_rate": (0.002, 0.001)}),
        ("learning_rate", 3e-4, "0.0003", {".recipe.learning_rate": (0.002, 0.0003)}),
        ("steps", "x4", "x4", {".recipe.steps": (40, 160), ".tasks.0.recipe.steps": (50, 200)}),
        ("width", 64, "64", {".model.width": (16, 64), ".model.mlp_width": (32, 128)}),
        ("weight_decay", "x0.5", "x0.5", {".recipe.weight_decay": (0.1, 0.05), ".tasks.0.recipe.weight_decay": (1, 0.5)}),
        ("train_length", "x2", "x2", {".tasks.0.train_length": (4, 8), ".tasks.1.train_length": (6, 12)}),
    ],
)
def test_a_condition_changes_one_thing_for_all_tasks(field, value, name, changed):
    base = validated(Suite, suite_dict(tasks=TASKS, vary=vary(**{field: [value]})), "suite")
    ((condition, suite),) = base.conditions.items()
    assert condition == f"{field}-{name}" == suite.condition
    assert suite.name == f"tiny-{condition}"
    assert (suite.encodings, suite.seeds, suite.vary) == (["nope", "rope"], [0, 3], None)
    about = {"name", "condition", "about", "encodings", "seeds", "vary"}
    assert differences(base.model_dump(exclude=about), suite.model_dump(exclude=about)) == changed
    assert suite.fingerprint != base.fingerprint
    assert Suite.model_validate_json(suite.model_dump_json()).fingerprint == suite.fingerprint, "as workers get it"


def test_conditions_do_not_change_the_fingerprint_of_their_suite():
    with_vary, without = (validated(Suite, suite_dict(**more), "suite") for more in ({"vary": vary(steps=["x2"])}, {}))
    assert with_vary.fingerprint == without.fingerprint


def test_the_name_of_a_condition_is_that_of_a_suite(tmp_path):
    path = tmp_path / "my-own.yaml"
    path.write_text(yaml.safe_dump(suite_dict(vary=vary(steps=["x2"], width=[32]))))
    (tmp_path / "my.yaml").write_text(path.read_text())
    suite = load_suite(str(tmp_path / "my-own-steps-x2.yaml"))
    assert (suite.name, suite.recipe.steps) == ("tiny-steps-x2", 80)
    with pytest.raises(InputError, match=r"unknown condition of suite .*my-own.yaml 'step-x2'; did you mean 'steps-x2'\?$"):
        load_suite(str(tmp_path / "my-own-step-x2.yaml"))
    assert [one.name for one in load_suite(str(path)).conditions.values()] == ["tiny-steps-x2", "tiny-width-32"]
    assert load_suite("quick").conditions == {}
    assert is_shipped("small-steps-x2") and not is_shipped("small-")


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (vary(learning_rat=["x2"]), r"unknown field in vary.conditions 'learning_rat'; did you mean 'learning_rate'\?"),
        (vary(width=[33]), "suite tiny-width-33: .*width must be a multiple of 2 × heads, got width 33 and heads 2"),
        (vary(steps=["2x"]), r"yaml: vary: conditions.steps: expected a number up to 1e\+09, or a factor such as x2, got '2x'"),
        (vary(width=[1e308]), r"yaml: vary: conditions.width: expected a number up to 1e\+09"),
        (vary(steps=[f"x{'9' * 400}"]), r"yaml: vary: conditions.steps: expected a number up to 1e\+09"),
        (vary(learning_rate=[0.01, 0.01 + 1e-15]), "two conditions are named learning_rate-0.01"),
        (vary(steps=["x1"]), "suite tiny: condition steps: x1 is the same as suite tiny"),
        (vary(width=["x2", 32]), "suite tiny: condition width: 32 is the same as width-x2"),
        (vary(steps=["x2", "x2"]), "yaml: vary: conditions.steps: duplicate 'x2'"),
        (vary(steps=["x0"]), "suite tiny-steps-x0: recipe.steps: .*greater than or equal to 1, got 0"),
        (vary(steps=["x2"]) | {"seed": [1]}, r"unknown key in vary 'seed'; did you mean 'seeds'\?"),
    ],
)
def test_bad_conditions_are_reported_on_one_line(tmp_path, section, message):
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(suite_dict(vary=section)))
    with pytest.raises(InputError, match=message) as error:
        load_suite(str(path))
    assert "\n" not in str(error.value)


def test_titles():
    titles = [condition_title(c) for c in ("learning_rate-x0.5", "width-128", "train_length-x2")]
    assert [title.replace("\u00a0", " ") for title in titles] == ["learning rate × 0.5", "width 128", "L × 2"]
