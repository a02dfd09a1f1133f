"""Encodings from files and import paths: references, errors, and runs."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from plugin_files import ONE, command, source_of_one, written
from support import suite_dict

from bench.plugins import registry
from bench.plugins.registry import get_encoding
from bench.plugins.source_hash import source_hash
from bench.runs.run import plan_runs
from bench.runs.worker import RunRequest
from bench.suites.suite import Suite, load_suite, validated
from tasks import InputError

pytestmark = pytest.mark.usefixtures("fresh_registry")


# --- references


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


def test_an_import_path_is_found_in_the_current_folder(here):
    written(here / "some_package/part.py", "in_a_package")
    (here / "some_package/__init__.py").write_text("")
    try:
        assert get_encoding("some_package.part:Mine").info.name == "in_a_package"
        assert registry.references(get_encoding("in_a_package")) == ("some_package.part:Mine",)
    finally:
        for name in ("some_package", "some_package.part"):
            sys.modules.pop(name, None)
        sys.path.remove(str(here))


FAULTS = {
    "misspelt": ("my_encodin.py", source_of_one(), "No such file or directory; did you mean 'my_encoding.py'?"),
    "without .py": ("my_encoding", source_of_one(), "unknown encoding 'my_encoding'; did you mean 'my_encoding.py'?"),
    "no such class": ("my_encoding.py:Mime", source_of_one(), "my_encoding.py has no 'Mime'; did you mean 'Mine'?"),
    "no such module": ("no_such_module:Mine", source_of_one(), "no_such_module:Mine cannot be imported: ModuleNotFoundError"),
    "no encoding": ("my_encoding.py", "X = 1", "my_encoding.py defines no encoding; expected a subclass"),
    "another thing": ("my_encoding.py:X", "X = 1", "my_encoding.py:X is not an encoding; expected a subclass"),
    "no syntax": ("my_encoding.py", "class :", "SyntaxError: invalid syntax (my_encoding.py, line 1)"),
    "breaks": ("my_encoding.py", "a = 1\nraise ValueError('no')", "imported (my_encoding.py, line 2): ValueError: no"),
    "exits": ("my_encoding.py", "raise SystemExit(3)", "cannot be imported (my_encoding.py, line 1): SystemExit: 3"),
    "relative": ("my_encoding.py", "from .a import b", "a file has no package: import `name` for `.name`"),
    "taken": ("my_encoding.py", source_of_one("rope"), "the name 'rope' is that of a built-in encoding"),
    "no name": ("my_encoding.py", source_of_one("../x"), "the name of an encoding must be a-z, 0-9 and _, start with a letter"),
    "a keyword": ("my_encoding.py", source_of_one("lambda"), "not be a keyword, got 'lambda'"),
    "incomplete": (
        "my_encoding.py",
        source_of_one().replace('past="p", ', ""),
        "missing 1 required positional argument: 'past'",
    ),
    "two": (
        "my_encoding.py",
        source_of_one("x", "B") + source_of_one("y", "C"),
        "defines 2 encodings (B, C); name one, as in my_encoding.py:B",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_invalid_plugins_are_rejected(here, fault):
    reference, source, message = FAULTS[fault]
    (here / "my_encoding.py").write_text(source)
    with pytest.raises(InputError) as caught:
        get_encoding(reference)
    assert message in str(caught.value)
    assert not registry.loaded.plugins


def test_invalid_plugins_are_reported_on_one_line(here, capsys):
    (here / "my_encoding.py").write_text("raise ValueError('two\\nlines')")
    for arguments in (("show", "my_encoding.py"), ("run", "quick", "--encoding", "my_encoding.py")):
        code, printed, err = command(capsys, *arguments)
        assert (code, printed, err.count("\n")) == (2, "", 1)
        assert "my_encoding.py cannot be imported (my_encoding.py, line 1): ValueError: two lines" in err


def test_show_accepts_a_file(here, capsys):
    written(here / "mine.py", "mine")
    code, printed, _ = command(capsys, "show", "mine.py", "--json", "--no-measure")
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
    monkeypatch.setattr(registry, "loaded", registry.Loaded())  # another process
    monkeypatch.chdir("/")
    order.load_encoding()
    assert get_encoding(order.encoding).info.name == "mine"
    (here / "mine.py").write_text((here / "mine.py").read_text() + "# another\n")
    order.load_encoding()  # a process goes on with what it has loaded
    monkeypatch.setattr(registry, "loaded", registry.Loaded())
    with pytest.raises(
        InputError, match=r"the source of mine changed after this run was asked for \(hash \w{12} then, \w{12} now\)"
    ):
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


def test_a_source_that_changes_during_the_grid_fails_the_run(here, capsys, monkeypatch):
    from bench.runs.pool import LocalPool

    written(here / "mine.py", "mine")
    (here / "tiny.yaml").write_text(yaml.safe_dump(suite_dict()))
    start = LocalPool.start_worker

    def changed(pool, *arguments):
        (here / "mine.py").write_text((here / "mine.py").read_text() + "# another\n")
        start(pool, *arguments)

    monkeypatch.setattr(LocalPool, "start_worker", changed)
    code, printed, _ = command(capsys, "run", "tiny.yaml", "--task", "copying", "--encoding", "mine.py", "--workers", 1)
    assert code == 1
    assert "the source of mine changed after this run was asked for" in printed
    assert not list(here.rglob("result.json"))


def test_a_hook_that_exits_fails_its_run_once(here, capsys):
    quits = "    def prepare(self, at):\n        raise SystemExit(0)\n"
    (here / "mine.py").write_text(written(here / "mine.py", "mine").decode() + quits)
    (here / "tiny.yaml").write_text(yaml.safe_dump(suite_dict()))
    code, printed, _ = command(capsys, "run", "tiny.yaml", "--task", "copying", "--encoding", "mine.py", "--workers", 1)
    assert code == 1
    assert "SystemExit: 0" in printed
    (failure,) = here.rglob("failure.json")
    assert f"traceback: {failure.relative_to(here)}" in printed


@pytest.mark.parametrize(
    ("method", "raised"),
    [
        ("    def __init__(self, setup):\n        raise KeyError('x\\ny')\n", "KeyError"),
        ("    def __init__(self, setup, rate):\n        super().__init__(setup)\n", "TypeError"),
        ("    def rotate(self, q, k, at):\n        return q.nothing, k\n", "AttributeError"),
        ("    def bias(self, q, k, at):\n        raise SystemExit(0)\n", "SystemExit: 0"),
    ],
)
def test_errors_in_hooks_are_reported_on_one_line(here, capsys, method, raised):
    (here / "mine.py").write_text(written(here / "mine.py", "mine").decode() + method)
    (here / "tiny.yaml").write_text(yaml.safe_dump(suite_dict()))
    for arguments in (["show", "mine.py"], ["run", "tiny.yaml", "--profile", "--encoding", "mine.py"]):
        code, _, err = command(capsys, *arguments)
        last = err.splitlines()[-1]
        assert code == 2 and last.startswith("lprime: mine raised an error") and raised in last
        assert raised == "TypeError" or "(mine.py, line " in last  # its caller is ours


def test_an_unknown_ranking_is_rejected_before_anything_runs(here, capsys):
    (here / "mine.py").write_text(written(here / "mine.py", "mine").decode().replace("shift_invariant=True", 'ranking="long"'))
    for reference in ("mine.py", "randomised(mine.py)"):
        code, _, err = command(capsys, "show", reference, "--no-measure")
        assert (code, err.count("\n")) == (2, 1) and "'long'; did you mean 'longer'?" in err
