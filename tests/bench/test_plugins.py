"""Encodings from files and import paths: references, errors, and runs."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from commands import run_command
from plugin_files import ONE, source_of_one, written
from support import new_registry, suite_dict

from bench.plugins import registry
from bench.plugins.loading import read_source
from bench.plugins.references import encoding_chain
from bench.plugins.registry import get_encoding
from bench.plugins.source_hash import source_hash
from bench.runs.run import plan_runs
from bench.runs.worker import RunRequest
from bench.suites.suite import Suite, load_suite, validated
from tasks import InputError

pytestmark = pytest.mark.usefixtures("fresh_registry")


# --- references


@pytest.mark.parametrize("name", ["", "a b", "a.b", "a(1)", "a(b, c)", "f(x)(y)", "(" * 5000, "-" * 5000 + "a", "a[0]"])
def test_invalid_names(name):
    with pytest.raises(ValueError, match="not a name"):
        encoding_chain(name)


def test_encodings_in_a_name():
    assert encoding_chain("a(b(c(x=1.0),y='z'))") == ["a", "b", "c"]
    assert encoding_chain("a") == encoding_chain("a(x=1)") == ["a"]


@pytest.mark.parametrize(
    "reference", ["mine.py", "./mine.py", "mine.py:Mine", "sub/mine.py", "{here}/mine.py", "a (b), c/mine.py"]
)
def test_a_file_is_an_encoding_under_its_own_name(here, reference):
    reference = reference.format(here=here)
    written(here / reference.removesuffix(":Mine"), "own_name")
    cls = get_encoding(reference)
    assert cls.info.name == "own_name"
    assert get_encoding("own_name") is cls, "known by its name once loaded"
    assert get_encoding(f" {reference} ") is cls, "loaded once"


def test_a_reference_can_be_used_wherever_a_name_can(here):
    written(here / "mine.py", "mine")
    written(here / "sub/other.py", "other", cls="Other")
    assert get_encoding("mine.py(strength=2)").info.name == "mine(strength=2.0)"
    assert get_encoding("randomised(sub/other.py:Other)").info.name == "randomised(other)"
    assert get_encoding("ssmax(randomised(mine.py(strength=3.0)))").info.name == "ssmax(randomised(mine(strength=3.0)))"


def test_a_wrapper_may_come_from_a_file(here):
    source = ONE.format(name="wraps", cls="Wraps", imports="").replace("Encoding", "Wrapper")
    (here / "wraps.py").write_text(source)
    assert get_encoding("wraps.py(rope)").info.name == "wraps(rope)"
    with pytest.raises(InputError, match="wraps wraps another encoding; expected wraps"):
        get_encoding("wraps.py")


@pytest.mark.parametrize("files", [["part.py"], ["part.py", "__init__.py"]])
def test_an_import_path_is_found_in_the_current_folder(here, files):
    for file in files:
        written(here / "some_package" / file, "in_a_package")
    assert {*read_source("some_package.part:Mine").files} == {f"some_package/{file}" for file in files}, "without running it"
    try:
        assert get_encoding("some_package.part:Mine").info.name == "in_a_package"
        assert registry.references(get_encoding("in_a_package")) == ("some_package.part:Mine",)
    finally:
        for name in ("some_package", "some_package.part"):
            sys.modules.pop(name, None)
        sys.path.remove(str(here))


def test_a_module_that_does_not_exist_is_answered_with_the_nearest_match_and_nothing_is_run(here):
    for folder in ("plain", "whole"):
        (here / folder).mkdir()
        (here / folder / "fading.py").write_text("raise AssertionError")
    (here / "whole" / "__init__.py").write_text("raise AssertionError")
    for name, hint in [
        ("whole.fadin", "; did you mean 'whole.fading'?"),
        ("plain.fadin", "; did you mean 'plain.fading'?"),  # a namespace package
        ("wholee.fading", "; did you mean 'whole.fading'?"),
        ("whole.fading.x", ""),
        ("plain", ""),
    ]:
        with pytest.raises(InputError, match=re.escape(f"Python finds no file of a module {name!r}{hint}") + "$"):
            read_source(f"{name}:Mine")


def test_a_wrong_name_is_answered_with_the_nearest_match(here):
    (here / "more.py").write_text(
        source_of_one("first", "First") + "class Second(First):\n    info = Info('second', *['x'] * 3, 1, *['x'] * 4)\n"
    )
    (here / "deep.py").write_text(f"x = {'-' * 20_000}1")
    for text, message in {
        "more.py": "more.py defines 2 encodings (First, Second); name one, as in more.py:First",
        "more.py:Secnd": "unknown class of more.py 'Secnd'; did you mean 'Second'?",
        "deep.py": "deep.py cannot be imported: ",
        "mor.py": "cannot read encoding mor.py: No such file or directory; did you mean 'more.py'?",
        "more.py:First(strenth=1)": "unknown setting of first 'strenth'; did you mean 'strength'?",
        "rope(bse=1)": "did you mean 'base'?",
        "RoPE": "unknown encoding 'RoPE'; did you mean 'rope'?",
        "more": "unknown encoding 'more'; did you mean 'more.py'?",
    }.items():
        with pytest.raises(InputError, match=re.escape(message)):
            get_encoding(text)


def test_show_accepts_a_file(here):
    written(here / "mine.py", "mine")
    code, printed, _ = run_command("show", "mine.py", "--json")
    assert code == 0
    (item,) = json.loads(printed)
    assert (item["name"], item["settings"]) == ("mine", {"strength": 1.0})


def test_a_duplicate_name_is_rejected(here):
    written(here / "one.py", "same")
    written(here / "two.py", "same")
    get_encoding("one.py")
    with pytest.raises(InputError, match=r"two plugins are named 'same': one\.py and two\.py; rename one"):
        get_encoding("two.py")
    assert get_encoding("same") is get_encoding("one.py"), "the first is as it was"


# --- runs


def suite_of(*names: str) -> Suite:
    return validated(Suite, suite_dict(encodings=list(names)), "suite")


def test_a_changed_source_stops_the_run(here, monkeypatch):
    written(here / "mine.py", "mine")
    get_encoding("mine.py")
    (order,) = (RunRequest.of(run) for run in plan_runs(suite_of("nope"), ["mine"], ["copying"]))
    assert order.plugins == (f"{here.resolve()}/mine.py:Mine",)
    monkeypatch.chdir("/")
    with new_registry():  # another process
        order.load_encoding()
        assert get_encoding(order.encoding).info.name == "mine"
        (here / "mine.py").write_text((here / "mine.py").read_text() + "# another\n")
        order.load_encoding()  # a process goes on with what it has loaded
    message = r"the source of mine changed after this run was asked for \(hash \w{12} then, \w{12} now\)"
    with new_registry(), pytest.raises(InputError, match=message):
        order.load_encoding()


def test_a_changed_built_in_stops_the_run_too(monkeypatch):
    (order,) = (RunRequest.of(run) for run in plan_runs(suite_of("rope"), ["rope"], ["copying"]))
    assert (order.plugins, order.source) == ((), source_hash(get_encoding("rope")))
    with monkeypatch.context() as changed:
        changed.setattr(Path, "read_bytes", lambda path: b"another")
        order.load_encoding()  # a process goes on with what it has loaded
    with pytest.raises(InputError, match="the source of rope changed"):
        replace(order, source="0" * 64).load_encoding()


def test_a_worker_reports_an_unknown_encoding():
    (order,) = (RunRequest.of(run) for run in plan_runs(suite_of("nope"), ["gone"], ["copying"]))
    with pytest.raises(InputError, match="unknown encoding 'gone'"):
        order.load_encoding()


def test_paths_in_a_suite_are_relative_to_its_file(here, monkeypatch):
    written(here / "suites/mine.py", "mine")
    names = ["rope", "mine.py", "randomised(mine.py)"]
    (here / "suites/own.yaml").write_text(yaml.safe_dump(suite_dict(encodings=names)))
    suite = load_suite("suites/own.yaml")
    monkeypatch.chdir("/")
    assert suite.encoding_names == ["rope", "mine", "randomised(mine)"]
    assert suite.fingerprint == suite_of("rope").fingerprint


def test_a_source_that_changes_during_the_grid_fails_the_run(here, monkeypatch):
    from bench.runs.pool import LocalPool

    written(here / "mine.py", "mine")
    (here / "tiny.yaml").write_text(yaml.safe_dump(suite_dict()))
    start = LocalPool.start_worker

    def changed(pool, *arguments):
        (here / "mine.py").write_text((here / "mine.py").read_text() + "# another\n")
        start(pool, *arguments)

    monkeypatch.setattr(LocalPool, "start_worker", changed)
    code, printed, _ = run_command("run", "tiny.yaml", "--task", "copying", "--encoding", "mine.py", "--workers", 1)
    assert code == 1
    assert "the source of mine changed after this run was asked for" in printed
    assert not list(here.rglob("result.json"))


@pytest.mark.parametrize(
    ("call", "reason"), [("exit(0)", "SystemExit: 0"), ("__import__('os')._exit(0)", "its worker process died (exit code 0)")]
)
def test_a_hook_that_exits_fails_its_run_once(here, call, reason):
    quits = f"    def embed(self, x, at):\n        return x if not x.requires_grad else {call}\n"  # lprime run tries it without
    (here / "mine.py").write_text(written(here / "mine.py", "mine").decode() + quits)
    (here / "tiny.yaml").write_text(yaml.safe_dump(suite_dict()))
    code, printed, _ = run_command("run", "tiny.yaml", "--task", "copying", "--encoding", "mine.py", "--workers", 1)
    assert code == 1
    assert reason in printed
    (failure,) = here.rglob("failure.json")
    assert f"report: {failure.relative_to(here)}" in printed
