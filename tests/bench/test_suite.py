"""Suites: strict reading, exact test lengths, a fingerprint of everything that can change a number."""

import copy
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT, suite_dict

from bench.suites.suite import Suite, load_suite, shipped, split_task, validated
from bench.suites.yaml_config import read_yaml
from tasks import InputError


def make(**changes: object) -> Suite:
    return validated(Suite, suite_dict(**changes), "suite tiny.yaml")


@pytest.mark.parametrize("name", sorted(shipped()))
def test_shipped_suites_are_complete(name):
    suite = load_suite(name)
    assert suite.name == name
    ranked = {"copying", "addition", "parity", "key_retrieval", "sorting"}
    assert {t.task for t in suite.tasks} == ({"text"} if name.startswith("text") else ranked)
    for spec in suite.tasks:
        lengths = suite.test_lengths(spec.task)
        assert spec.train_length in lengths, "L itself is tested"
        assert any(n < spec.train_length for n in lengths)
        assert lengths[-1] == suite.longest(spec.task) >= 1.5 * spec.train_length


@given(length=st.integers(1, 400), percent=st.integers(200, 1000))
def test_multiples_of_l_are_rounded_exactly(length, percent):
    task = {"task": "copying", "variant": "repeat", "train_length": length}
    longest = make(test_at=[1, percent / 100], tasks=[task]).longest("copying")
    assert longest == -(-length * percent // 100), "the ceiling, by integer arithmetic"
    assert length in make(test_at=[0.5, percent / 100], tasks=[task]).test_lengths("copying"), "L itself is always tested"


def test_a_task_may_have_its_own_test_lengths_and_recipe():
    copying = {"task": "copying", "variant": "repeat", "train_length": 4}
    own = {"test_at": [0.5, 1.5], "recipe": {"steps": 7}}
    suite = make(tasks=[copying | own, copying | {"task": "sorting"}], test_at=[0.25, 2])
    assert [suite.test_lengths(task) for task in ("copying", "sorting")] == [[2, 4, 6], [1, 4, 8]]
    assert list(suite.test_sets("copying")) == [2, 4, 6]
    assert suite.recipe_for("copying").steps == 7 != suite.recipe_for("sorting").steps == suite.recipe.steps


NUMBERS = [
    ("version", 3),
    ("blocks", [{}, {"steps": 2}]),
    ("model", {"layers": 2}),
    ("recipe", {"learning_rate": 0.1}),
    ("test_at", [1, 3]),
    ("test_examples", 17),
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


COPYING = {"task": "copying", "variant": "repeat", "train_length": 4}
ERRORS = [
    ({"recipe": {"step": 9}}, r"recipe: unknown key 'step'; did you mean 'steps'\?"),
    ({"recipee": {}}, r": unknown key 'recipee'; did you mean 'recipe'\?"),
    ({"tasks": [COPYING | {"task": "copyin"}]}, r"unknown task 'copyin'; did you mean 'copying'\?"),
    ({"tasks": [COPYING | {"variant": "repeet"}]}, r"unknown variant of copying 'repeet'; did you mean 'repeat'\?"),
    ({"tasks": [COPYING | {"recipe": {"stepz": 1}}]}, r"tasks.copying.recipe: unknown key 'stepz'; did you mean 'steps'\?"),
    ({"tasks": [COPYING | {"train_length": 10**11}]}, "less than or equal to 4096"),
    ({"model": {"width": 18}}, "width must be a multiple of 2 × heads"),
    ({"seeds": [1, 1]}, "seeds: duplicate 1"),
    ({"seeds": []}, "at least 1 item"),
    ({"test_at": [0.5, 1, 1.0000000001]}, "needs test lengths from 1 to L = 4 and past it"),
    ({"recipe": {"steps": "many"}}, "got 'many'"),
    ({"recipe": {"clip_norm": math.inf}}, "finite number"),
    ({"version": True}, "valid integer, got True"),
    ({"blocks": [{}, {"steps": 1e-9}]}, "copying.recipe: steps: Input should be greater than or equal to 1, got 0"),
    ({"name": "../up"}, "pattern"),
    ({"model": {"layers": 9, "width": 2**15}}, "copying needs 576 GiB a step, more than any device has"),
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
        ("a: 1\nb: !!timestamp x\n", "not valid YAML"),
        ("\x00\x01", "not valid YAML"),
        ("? [a, b]\n: 1\n", "not valid YAML"),
        ("name: !!python/object/apply:os.system [true]\n", "not valid YAML"),
    ],
)
def test_invalid_files(tmp_path, text, message):
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as error:
        load_suite(str(path))
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)


def test_the_error_for_a_missing_file_or_suite_suggests_a_similar_one(tmp_path):
    (tmp_path / "small.yml").touch()
    with pytest.raises(InputError, match=rf"No such file or directory; did you mean '{tmp_path}/small.yml'\?$"):
        load_suite(str(tmp_path / "smal.yaml"))
    with pytest.raises(InputError, match=r"No such file or directory$"):
        load_suite(str(tmp_path / "otherwise.yaml"))
    with pytest.raises(InputError, match=r"unknown suite 'quik'; did you mean 'quick'\?"):
        load_suite("quik")


def test_shipped_suites_keep_the_fingerprints_of_their_results():
    expected = {"small": "c3958388dc00f09e", "text": "08a6d60bf0f36f87", "small-steps-x2": "99273ab0f67a9f03"}
    expected |= {"text-train_length-x2": "e88df2e0e1d185e0", "text-train_length-x4": "9083e9f382d67406"}
    assert {name: load_suite(name).fingerprint for name in expected} == expected
    for name in shipped():
        for path in (ROOT / "leaderboard/published/results" / name).glob("nope.jsonl"):
            runs, now = map(json.loads, path.open()), load_suite(name)
            made = {run["fingerprint"] for run in runs if run["suite_version"] == now.version}
            assert made <= {now.fingerprint}, name


def test_score_and_learning_rates():
    content = {key: value for key, value in suite_dict().items() if key != "score"}
    plain, swept = (validated(Suite, content | more, "suite") for more in ({}, {"learning_rates": [1e-3, 2e-3]}))
    assert (plain.score, plain.learning_rates) == ("exact", [])
    assert swept.fingerprint == plain.fingerprint, "which rates run is no part of it"
    assert validated(Suite, suite_dict(score="bits"), "suite").fingerprint != plain.fingerprint
    with pytest.raises(InputError, match=r"learning_rates.0: a learning rate must .* at most six digits, got 0.0012345678"):
        validated(Suite, content | {"learning_rates": [0.0012345678]}, "suite")


def test_paths_of_tasks_may_contain_the_plus_that_adds_them(tmp_path):
    (tmp_path / "c++").mkdir()
    (there := tmp_path / "c++" / "a+b.py").touch()
    assert split_task(f"quick+{there}:Reversal") == ("quick", f"{there}:Reversal")
    assert split_task(f"quick+{there}(depth=2)+copying") == (f"quick+{there}(depth=2)", "copying")
    assert split_task(str(there)) == (str(there), ""), "a file"
    assert split_task(f"quick+{tmp_path}/c++/none.py") == ("quick", f"{tmp_path}/c++/none.py"), "is then reported"


PLAIN = r"[0-9]{1,3}(:[0-5]?[0-9]){1,2}|0[0-9]{1,4}|[0-9]{1,3}_[0-9]+|0x[0-9a-f]+|0o?[0-7]+|(?i:yes|no|on|off)|\d{4}-\d\d-\d\d"


@given(st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none()))
def test_numbers_are_read_as_json_reads_them(tmp_path_factory, value):
    path = tmp_path_factory.getbasetemp() / "number.yaml"
    path.write_text(f"a: {json.dumps(value)}")
    (read,) = read_yaml(path, "file", "a").values()
    assert read == value and type(read) is type(value)


@given(st.from_regex(PLAIN, fullmatch=True).filter(lambda text: text != "0"))
def test_what_yaml_1_1_turns_into_other_numbers_is_text(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "text.yaml"
    path.write_text(f"a: {text}")
    assert read_yaml(path, "file", "a") == {"a": text}
