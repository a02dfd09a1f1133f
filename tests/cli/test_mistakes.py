"""Mistakes of a plugin's author and of a user of the command line, all in this process. Each is answered by one line that names
what was given, what was expected and what to do, with exit code 2; no file changes.
"""

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import yaml
from commands import refused, run_command
from mistakes import AUTHOR, CLUSTERS, COMMANDS, PLUGIN, REFERENCES
from support import suite_dict
from synthetic_results import full, store, store_failure, suite

import bench.check.run_checks
from bench.sealed.sandbox import Code

NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")


class InThisProcess:
    """The process that checks a plugin, up to its checks, in this one."""

    def __init__(self, module: str, code: Code, **order: object):
        self.sent: list[tuple] = []
        bench.check.run_checks.serve(self, order | {"reference": code.reference, "checks": []})

    def send(self, kind: str, **values: object) -> None:
        self.sent.append((kind, {}, values))

    def receive(self) -> tuple:
        return self.sent.pop(0)

    def limit_time(self, *_: object) -> None: ...
    def __enter__(self) -> "InThisProcess":
        return self

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    """A working directory: a suite, results of it under ``runs``, and a file."""
    folder = tmp_path_factory.mktemp("world")
    store(folder / "runs", full(suite(), {"rope": (1, 1, 0.9, 0.8), "nope": (1, 1, 0.5, 0.1)}))
    store_failure(folder / "runs", full(suite(), {"t5": (1, 1, 1, 1)})[0], "CUDA error")
    (folder / "tiny.yaml").write_text(yaml.safe_dump(suite_dict()))
    (folder / "file").write_text("kept")
    (folder / "leaderboard/published").mkdir(parents=True)  # otherwise the package's published results are read
    return folder


@pytest.fixture
def here(world, monkeypatch, fresh_registry) -> Iterator[Path]:
    monkeypatch.chdir(world)
    monkeypatch.setattr(bench.check.run_checks, "SealedProcess", InThisProcess)
    for variable in ("NOT_SET", "LPRIME_OUT", "LPRIME_WORKERS"):
        monkeypatch.delenv(variable, raising=False)
    yield world
    for name in ("mine.py", "cluster.yaml"):
        (world / name).unlink(missing_ok=True)


def line_of(command: str) -> str:
    """The one line of a refused command, which writes nothing."""
    before = {path: path.stat().st_mtime_ns for path in Path().rglob("*") if path.is_file()}
    line = refused(*shlex.split(command))
    assert {path: path.stat().st_mtime_ns for path in Path().rglob("*") if path.is_file()} == before, "nothing was written"
    assert ".tmp" not in line
    return line


@pytest.mark.parametrize("mistake", [pytest.param(m, marks=NO_GPU) if m == "cuda" else m for m in AUTHOR])
def test_mistakes_in_a_plugin(here, mistake):
    old, new, message = AUTHOR[mistake]
    assert PLUGIN.count(old) == 1
    (here / "mine.py").write_text(PLUGIN.replace(old, new))
    assert message in line_of("check --unsafe mine.py")  # no word about a sandbox


@pytest.mark.parametrize("name", ["a hook raises", "NaN", "no super"])
@pytest.mark.parametrize("command", ["run tiny.yaml --encoding {}", "run tiny.yaml --dry-run --on one-partition --encoding {}"])
def test_no_grid_starts_with_a_plugin_that_cannot_work(here, monkeypatch, name, command):
    monkeypatch.setenv("HOME", str(here))
    old, new, message = AUTHOR[name]
    (here / "mine.py").write_text(PLUGIN.replace(old, new))
    assert message in line_of(command.format("mine.py"))
    assert message in line_of(command.format("'randomised(mine.py)'"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"A title"', "7", "info of mine: title: Input should be a valid string"),
        ("rate: float = 1.0", "rate=torch.float32", "settings of mine: Unable to serialize unknown type"),
    ],
)
def test_no_grid_starts_with_a_plugin_that_no_result_can_hold(here, old, new, message):
    assert PLUGIN.count(old) == 1
    (here / "mine.py").write_text(PLUGIN.replace(old, new))
    assert message in line_of("run tiny.yaml --encoding mine.py")


@pytest.mark.parametrize("command", REFERENCES)
def test_mistakes_in_the_reference_to_a_plugin(here, command):
    (here / "mine.py").write_text(PLUGIN)
    assert REFERENCES[command] in line_of(command.replace("check", "check --unsafe"))  # no word about a sandbox


def test_a_folder_is_not_its_own_nearest_match(here):
    (here / "folder.py").mkdir(exist_ok=True)
    assert line_of("check --unsafe folder.py").strip().endswith("cannot read encoding folder.py: Is a directory")


@pytest.mark.parametrize("command", [pytest.param(c, marks=NO_GPU) if c.endswith("cuda") else c for c in COMMANDS])
def test_mistakes_on_the_command_line(here, monkeypatch, command):
    if "preemptible" in command:
        (here / "cluster.yaml").write_text("{partition: x, time_minutes: 60, shared_folder: $NOT_SET/lprime}")
        command, given = command.replace("preemptible", "cluster.yaml"), command
        assert COMMANDS[given] in line_of(command)
    else:
        assert COMMANDS[command] in line_of(command)


@pytest.mark.parametrize("mistake", CLUSTERS)
def test_mistakes_in_a_cluster_file(here, mistake):
    changes, message = CLUSTERS[mistake]
    (here / "cluster.yaml").write_text(yaml.safe_dump({"partition": "main", "time_minutes": 60} | changes))
    out = " --out elsewhere" if mistake == "another folder" else ""
    assert message in line_of(f"run tiny.yaml --on cluster.yaml{out}")


def test_a_grid_warns_of_an_info_that_check_refuses(here):
    Path("mine.py").write_text(PLUGIN.replace("2026", '"2026"'))
    code, out, _ = run_command("run", "tiny.yaml", "--encoding", "mine.py", "--dry-run")
    assert code == 0
    assert "caution: lprime check refuses what mine declares; correct it before the runs: " in out
    assert "year is not a year of publication: '2026'" in out
