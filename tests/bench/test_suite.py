"""Suites: strict reading, exact test lengths, a fingerprint of everything that can change a number."""

import copy
import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support import suite_dict

from bench.suites.suite import Suite, load_suite, shipped, validated
from bench.suites.yaml_config import read_yaml
from tasks import InputError, content_hash


def make(**changes: object) -> Suite:
    return validated(Suite, suite_dict(**changes), "suite tiny.yaml")


@pytest.mark.parametrize("name", sorted(shipped()))
def test_shipped_suites_are_complete(name):
    suite = load_suite(name)
    assert suite.name == name
    ranked = {"copying", "addition", "parity", "key_retrieval", "sorting"}
    only = {"language": {"language"}, "text": {"text"}, "text-python": {"text"}}
    assert {t.task for t in suite.tasks} == only.get(name, ranked)
    for spec in suite.tasks:
        lengths = suite.test_lengths(spec.task)
        assert spec.train_length in lengths, "L itself is tested"
        assert any(n < spec.train_length for n in lengths)
        assert lengths[-1] == suite.longest(spec.task) >= 1.5 * spec.train_length


def test_lengths_are_rounded_up_and_include_l():
    suite = make(test_at=[0.5, 1, 1.1, 1.25, 2], tasks=[{"task": "copying", "variant": "repeat", "train_length": 10}])
    assert suite.test_lengths("copying") == [5, 10, 11, 13, 20]
    suite = make(test_at=[0.5, 1.1], tasks=[{"task": "copying", "variant": "repeat", "train_length": 3}])
    assert suite.test_lengths("copying") == [2, 3, 4], "L itself is always tested; 1.1 becomes L + 1"


@given(length=st.integers(1, 400), percent=st.integers(101, 1000))
def test_multiples_of_l_are_rounded_exactly(length, percent):
    task = {"task": "copying", "variant": "repeat", "train_length": length}
    longest = make(test_at=[1, percent / 100], tasks=[task]).longest("copying")
    assert longest == -(-length * percent // 100), "the ceiling, by integer arithmetic"


def test_a_task_may_have_its_own_test_lengths():
    copying = {"task": "copying", "variant": "repeat", "train_length": 4}
    suite = make(tasks=[copying | {"test_at": [0.5, 1.5]}, copying | {"task": "sorting"}], test_at=[0.25, 2])
    assert [suite.test_lengths(task) for task in ("copying", "sorting")] == [[2, 4, 6], [1, 4, 8]]
    assert list(suite.test_sets("copying")) == [2, 4, 6]


def test_a_task_may_change_the_recipe():
    suite = make(tasks=[{"task": "copying", "variant": "repeat", "train_length": 4, "recipe": {"steps": 7}}])
    assert suite.recipe_for("copying").steps == 7
    assert suite.recipe_for("copying").batch == suite.recipe.batch


NUMBERS = [
    ("name", "other"),
    ("version", 2),
    ("model", {"layers": 2}),
    ("recipe", {"learning_rate": 0.1}),
    ("recipe", {"betas": [0.9, 0.99]}),
    ("test_at", [1, 3]),
    ("test_examples", 17),
    ("test_seed", 1),
    ("tasks", [{"task": "copying", "variant": "unique", "train_length": 4}]),
    ("tasks", [*suite_dict()["tasks"][:-1], suite_dict()["tasks"][-1] | {"test_at": [0.5, 2]}]),
]


@pytest.mark.parametrize(("key", "value"), NUMBERS)
def test_the_fingerprint_covers_what_can_change_a_number(key, value):
    assert make(**{key: value}).fingerprint != make().fingerprint


def test_the_fingerprint_ignores_everything_else():
    same = make(seeds=[5, 6], encodings=["rope"], about="other words")
    assert same.fingerprint == make().fingerprint
    reordered = dict(reversed(list(copy.deepcopy(suite_dict()).items())))
    assert validated(Suite, reordered, "suite").fingerprint == make().fingerprint


def test_the_fingerprint_covers_task_and_harness_versions(monkeypatch):
    from bench.suites import suite as module
    from tasks.copying import Copying

    before = make().fingerprint
    monkeypatch.setattr(Copying, "version", Copying.version + 1)
    assert (other := make().fingerprint) != before
    monkeypatch.setattr(module, "PROTOCOL", module.PROTOCOL + 1)
    assert make().fingerprint not in (before, other)


def test_test_sets_depend_only_on_the_suite():
    suite, other = make(), make(seeds=[3], test_seed=1)
    hashes = [content_hash(s.test_sets("copying").values()) for s in (suite, make(seeds=[9]), other)]
    assert hashes[0] == hashes[1] != hashes[2]
    assert list(suite.test_sets("copying")) == suite.test_lengths("copying")


ERRORS = [
    ({"recipe": {"step": 9}}, r"unknown key in recipe 'step'; did you mean 'steps'\?"),
    ({"recipee": {}}, r"unknown key 'recipee'; did you mean 'recipe'\?"),
    (
        {"tasks": [{"task": "copyin", "variant": "repeat", "train_length": 4}]},
        r"unknown task 'copyin'; did you mean 'copying'\?",
    ),
    (
        {"tasks": [{"task": "copying", "variant": "repeet", "train_length": 4}]},
        r"unknown variant of copying 'repeet'; did you mean 'repeat'\?",
    ),
    ({"tasks": [{"task": "copying", "variant": "repeat", "train_lenght": 4}]}, "train_length"),
    (
        {"tasks": [{"task": "copying", "variant": "repeat", "train_length": 4, "recipe": {"stepz": 1}}]},
        r"tasks.copying.recipe: unknown key 'stepz'; did you mean 'steps'\?",
    ),
    ({"model": {"width": 18}}, "width must be a multiple of 2 × heads"),
    ({"model": {"norm": "rmsnorm"}}, "pre-layernorm"),
    ({"seeds": [1, 1]}, "seeds: duplicate 1"),
    ({"seeds": []}, "at least 1 item"),
    ({"test_at": [0.5, 1]}, "above 1"),
    (
        {"tasks": [{"task": "copying", "variant": "repeat", "train_length": 4, "test_at": [2]}]},
        r"tasks\.0\.test_at: .*up to 1",
    ),
    ({"recipe": {"steps": 0}}, "greater than or equal to 1"),
    ({"recipe": {"steps": "many"}}, "got 'many'"),
    ({"recipe": {"clip_norm": math.inf}}, "finite number"),
    ({"recipe": {"betas": [0.9, 1.0]}}, r"less than 1, got 1\.0"),
    ({"test_at": [0.5, 1, math.inf, 2]}, r"test_at\.2"),
    ({"test_at": [0.5, 1, 1.0000000001]}, "needs test lengths from 1 to L = 4 and past it"),
    ({"test_at": [1e-12, 1, 2]}, "needs test lengths from 1 to L = 4 and past it"),
    ({"tasks": [{"task": "copying", "variant": "repeat", "train_length": 10**11}]}, "less than or equal to 4096"),
    ({"version": True}, "valid integer, got True"),
    ({"name": "../up"}, "pattern"),
    ({"name": "x" * 300}, "name: String should match"),
    ({"encodings": ["x" * 1001]}, "at most 1000 characters"),
]


@pytest.mark.parametrize(("changes", "message"), ERRORS)
def test_errors_are_reported_on_one_line(changes, message):
    with pytest.raises(InputError, match=message) as error:
        make(**changes)
    assert "\n" not in str(error.value)
    assert "suite tiny.yaml" in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a\n- b\n", "must be a mapping"),
        ("name: [", r"not valid YAML \(line 1\)"),
        ("name: a\nname: b\n", "duplicate key 'name'"),
        ("", "must be a mapping"),
        ("\x00\x01", "not valid YAML"),
        ("? [a, b]\n: 1\n", "not valid YAML"),
        ("name: !!python/object/apply:os.system [true]\n", "not valid YAML"),
        ("a: 1\nb: !!bool x\n", r"not valid YAML \(line 2\): 'x' is not a valid bool"),
        ("a: !!int ''\n", r"\(line 1\): '' is not a valid int"),
        ("a: !!float '-'\n", r"\(line 1\): '-' is not a valid float"),
        ("a: !!timestamp x\n", r"\(line 1\): 'x' is not a valid timestamp"),
        ("a: !!map xy\n", r"\(line 1\): expected a mapping node, but found scalar"),
        ("a: !!set [x]\n", r"\(line 1\): expected a mapping node, but found sequence"),
    ],
)
def test_invalid_files(tmp_path, text, message):
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as error:
        load_suite(str(path))
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)


def test_keys_that_a_file_must_or_must_not_have(tmp_path):
    lacking = {key: value for key, value in suite_dict().items() if key != "test_seed"}
    path = tmp_path / "tiny.yaml"
    for content, message in ((lacking, "test_seed: Field required"), (suite_dict(condition="x"), "unknown field 'condition'")):
        path.write_text(yaml.safe_dump(content))
        with pytest.raises(InputError, match=f"^suite tiny.yaml: {message}"):
            load_suite(str(path))


def test_the_error_for_a_missing_file_suggests_a_similar_one(tmp_path):
    (tmp_path / "small.yml").touch()
    (tmp_path / "smal.txt").touch()
    (tmp_path / "smalll.yaml").mkdir()
    for name in ("smal.yml", "smal.yaml"):
        with pytest.raises(InputError, match=rf"No such file or directory; did you mean '{tmp_path}/small.yml'\?$"):
            load_suite(str(tmp_path / name))
    for name in ("otherwise.yaml", "nowhere/small.yml"):
        with pytest.raises(InputError, match=r"No such file or directory$"):
            load_suite(str(tmp_path / name))


def test_the_error_for_an_unknown_suite_suggests_a_similar_one():
    with pytest.raises(InputError, match=r"unknown suite 'quik'; did you mean 'quick'\?"):
        load_suite("quik")


def test_scalars_are_those_of_yaml_1_2(tmp_path):
    (tmp_path / "some.yaml").write_text(
        "{a: 010, b: 1:30, c: yes, d: 2.0e-3, e: 1e3, f: ~, g: , h: true, i: 2026-01-31, j: 0x1F, k: -.5, l: 1_000, m: .inf,"
        " n: '5'}"
    )
    read = read_yaml(tmp_path / "some.yaml", "file", "a")
    assert read == {
        "a": 10, "b": "1:30", "c": "yes", "d": 0.002, "e": 1000.0, "f": None, "g": None, "h": True, "i": "2026-01-31",
        "j": 31, "k": -0.5, "l": "1_000", "m": ".inf", "n": "5",
    }  # fmt: skip
    assert [type(read[key]) for key in "adej"] == [int, float, float, int]


def test_shipped_suites_keep_the_fingerprints_of_their_results():
    expected = {"small": "c3958388dc00f09e", "text": "08a6d60bf0f36f87"}
    assert {name: load_suite(name).fingerprint for name in expected} == expected


def test_the_sizes_differ_from_small_in_size_and_learning_rates_alone():
    small = load_suite("small")
    for name in ("medium", "standard"):
        suite = load_suite(name)
        factor = small.model.width / suite.model.width
        assert suite.learning_rates == [rate * factor for rate in small.learning_rates]
        same = {"name": "small", "version": 3, "about": small.about, "vary": None, "model": small.model}
        recipe = suite.recipe.model_copy(update={"learning_rate": small.recipe.learning_rate})
        changed = suite.model_copy(update=same | {"recipe": recipe, "learning_rates": small.learning_rates})
        assert changed == small.model_copy(update={"vary": None})


def test_score_and_learning_rates():
    content = {key: value for key, value in suite_dict().items() if key != "score"}
    plain, swept = (validated(Suite, content | more, "suite") for more in ({}, {"learning_rates": [1e-3, 2e-3]}))
    assert (plain.score, plain.learning_rates) == ("exact", [])
    assert swept.fingerprint == plain.fingerprint, "which rates run is no part of it"
    assert validated(Suite, suite_dict(score="exact+token"), "suite").fingerprint != plain.fingerprint
    for wrong, message in (([1e-3, 1e-3], "learning_rates: duplicate 0.001"), ([0.0], "greater than 0"), ([-1.0], "than 0")):
        with pytest.raises(InputError, match=message):
            validated(Suite, suite_dict(learning_rates=wrong), "suite")
