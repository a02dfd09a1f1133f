"""Mistakes of a plugin's author and of a user of the command line, all in this process. Each is answered by one line that names
what was given, what was expected and what to do, with exit code 2; no file changes.
"""

import shlex
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from commands import printed, refused, run_command
from support import suite_dict
from synthetic_results import full, store, suite

import bench.check.run_checks
from bench.sealed.process import SealedProcess
from bench.sealed.sandbox import Code

PLUGIN = """\
import torch
from torch import nn
from bench.encodings import At, Encoding, Info, Wrapper


class Mine(Encoding):
    info = Info("mine", "bias", "A title", "Ada", 2026, "https://a.org/1", formula="f", past="p", provenance="o")

    def __init__(self, setup, *, rate: float = 1.0):
        super().__init__(setup)

    def bias(self, q, k, at):
        return None
"""
"""A valid encoding; its hook is in line 12. A mistake replaces one text by another."""

INIT, HOOK, BODY = "        super().__init__(setup)\n", "def bias(self, q, k, at)", "return None"
METHOD = f"{HOOK}:\n        {BODY}"

AUTHOR = {
    "a hook raises": (BODY, "return undefined",
        "`bias` of mine raised an error (mine.py, line 13): NameError: name 'undefined' is not defined"),
    "a misspelt field of at": (BODY, "return at.distance",
        "AttributeError: 'At' object has no attribute 'distance'; its fields are after_stage, causal, distances, "),
    "whole numbers": (BODY, "return -at.distances",
        "`bias` of mine returns [1, 1] of torch.int64; expected None, or float32 or float64 broadcastable to [B, H, T, T]"),
    "no super": (INIT, "        self.rate = rate\n",
        "object has no attribute '_parameters'; call super().__init__(setup)"),
    "a setting without default": ("*, rate: float = 1.0", "rate",
        "missing 1 required positional argument: 'rate'; compare the arguments with bench.encodings.Encoding; settings are"),
    "a misspelt hook": (HOOK, "def biass(self, q, k, at)",
        "nothing uses `biass` of mine; did you mean `bias`?"),
    "a misspelt field": ('provenance="o"', 'provenance="o", shift_invarient=True',
        "(mine.py, line 7): TypeError: Info.__init__() got an unexpected keyword argument 'shift_invarient'; did you mean '"),
    "a taken name": ('"mine"', '"rope"', "mine.py: the name 'rope' belongs to a built-in encoding, or to all; choose another"),
    "no info": ("    info = ", "    infos = ",
        "mine.py defines no encoding; expected a subclass of lprime.Encoding with its own `info`"),
    "a package that is not there": ("import torch\n", "import einopz, torch\n",
        "mine.py cannot be imported (mine.py, line 1): ModuleNotFoundError: No module named 'einopz'"),
    "a syntax error": ("class Mine(Encoding):", "class Mine(Encoding)", "SyntaxError: expected ':' (mine.py, line 6)"),
}  # fmt: skip
"""Mistake → text of ``PLUGIN``, what replaces it, the answer to `lprime check`."""

REFERENCES = {
    "check rop": "unknown encoding 'rop'; did you mean 'rope'?",
    "submit mine.py": "Missing option '--suite'",
    "submit rope --suite tiny.yaml": "expected one file of your own, such as my_encoding.py, got 'rope'",
    "new mine": "mine.py already exists; move it away, or choose another name",
    "new rope": "the name 'rope' belongs to a built-in encoding, or to all; choose another",
    f"new {'x' * 65}": "the name of a plugin must be up to 64",
    "new all": "the name 'all' belongs to a built-in encoding, or to all; choose another",
}
"""Command → answer, next to a valid ``mine.py``."""

COMMANDS = {
    "bord": "No such command 'bord'. Did you mean 'board'?",
    "run": "Missing argument 'SUITE'",
    "run quik": "unknown suite 'quik'; did you mean 'quick'?",
    "run tiny": "unknown suite 'tiny'; did you mean 'tiny.yaml'?",
    "run quick --encoding rop": "unknown encoding 'rop'; did you mean 'rope'?",
    "run quick --encoding 'rope(bse=1)'": "unknown setting of rope 'bse'; did you mean 'base'?",
    "run quick --encoding 'fire(hidden=0)'": "setting hidden of fire must be above 0, such as 32, got 0",
    "run quick --seed -1": "a seed must be a whole number from 0 to 2147483647, got -1",
    "run quick --seed 0,1": "expected one value, got '0,1'; repeat the option for each of 0, 1",
    "run quick --seed 1.5": "expected a whole number, got '1.5'",
    "run quick --encoding 'randomised(rope,longest=99),rope'": "for each of randomised(rope,longest=99), rope",
    "run quick --encoding rope alibi": "unexpected extra argument(s) (alibi); to give an option several values, repeat it",
    "run quick --workers 0": "greater than or equal to 1",
    "run quick --device gpu": "unknown device 'gpu'",
    "run quick --out file": "Invalid value for '--out' (env var: 'LPRIME_OUT'): dir 'file' is a file.",
    "run quick --out ''": "an empty value in 'run' 'quick' '--out' ''; is a variable of the shell not set?",
    "board --html=": "an empty value in 'board' '--html='",
    "run quick --out /proc/nowhere": "/proc/nowhere: No such file or directory",
    "run quick --detach": "--detach needs a cluster; expected --on FILE too",
    "run quick --on gpu-paked --dry-run": "unknown cluster 'gpu-paked'; did you mean 'gpu-packed'?",
    "run quick --on cluster.yaml --workers 3": "--workers and --device apply to this machine only; with --on, the cluster",
    "show encoding": "unknown name 'encoding'; did you mean 'encodings'?",
    "show alibe": "unknown name 'alibe'; did you mean 'alibi'?",
    "show 'text(corpse=1)'": "unknown setting of text 'corpse'; did you mean 'corpus'?",
    "show 'text(corpus=\"x\")'": "variant sotu of text takes no setting `corpus`",
    "status smal": "unknown suite 'smal'; did you mean 'small'?",
    "board --check --board nowhere": "nothing is published under nowhere; expected results/",
    "data additon --suite quick --to d": "did you mean 'addition'?",
    "data addition --suite quick --to d --train-examples 0": "at least 1 and at most 10,000,000, got 0",
    "data addition --suite quick --to d --train-examples 1000000000000": "at most 10,000,000, got 1,000,000,000,000",
    "compare rope rop --suite tiny": "unknown encoding with results on suite tiny 'rop'; did you mean 'rope'?",
    "compare nope nope --suite tiny": "expected two different encodings, got 'nope' twice",
    "compare rope nope --suite tiny --published --board nowhere": "nothing is published under nowhere; expected",
    "export --probes --published --to t.csv": "--probes are of your runs; expected no --published",
}
"""Command → answer, in a folder with a suite, its results and a file."""

CLUSTERS: dict[str, tuple[dict[str, object], str]] = {
    "a misspelt key": ({"partion": "x"}, "unknown key 'partion'; did you mean 'partition'?"),
    "no time": ({"time_minutes": 0}, "time_minutes: Input should be greater than or equal to 1, got 0"),
    "a type without number": ({"gpus_per_job": "h100"}, "gpus_per_job: String should match pattern"),
    "no time to save": ({"time_minutes": 1, "save_before_s": 60}, "save_before_s must be less than the time limit of 60 s, g"),
}
"""Mistake → changes of a valid cluster file, answer."""


class InThisProcess:
    """The process that checks a plugin, up to its checks, in this one."""

    def __init__(self, module: str, code: Code, **order: object):
        self.sent: list[tuple] = []
        bench.check.run_checks.serve(self, order | {"reference": code.reference})
        signal.alarm(0)  # of the last check

    def send(self, kind: str, **values: object) -> None:
        self.sent.append((kind, {}, values))

    answer = SealedProcess.answer

    def receive(self) -> tuple:
        return self.sent.pop(0)

    def __enter__(self) -> "InThisProcess":
        return self

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    """A working directory: a suite, results of it under ``runs``, and a file."""
    folder = tmp_path_factory.mktemp("world")
    store(folder / "runs", full(suite(), {"rope": (1, 1, 0.9, 0.8), "nope": (1, 1, 0.5, 0.1)}))
    (folder / "tiny.yaml").write_text(yaml.safe_dump(suite_dict()))
    (folder / "file").write_text("kept")
    (folder / "leaderboard/published").mkdir(parents=True)  # otherwise the package's published results are read
    return folder


@pytest.fixture
def here(world, monkeypatch, fresh_registry) -> Iterator[Path]:
    monkeypatch.chdir(world)
    monkeypatch.setattr(bench.check.run_checks, "SealedProcess", InThisProcess)
    for variable in ("LPRIME_OUT", "LPRIME_WORKERS"):
        monkeypatch.delenv(variable, raising=False)
    yield world
    for name in ("mine.py", "cluster.yaml"):
        (world / name).unlink(missing_ok=True)


def line_of(command: str) -> str:
    """The one line of a refused command, which writes nothing."""
    before = {path: path.stat().st_mtime_ns for path in Path().rglob("*") if path.is_file()}
    line = refused(*shlex.split(command))
    assert {path: path.stat().st_mtime_ns for path in Path().rglob("*") if path.is_file()} == before, "nothing was written"
    return line


@pytest.mark.parametrize("mistake", AUTHOR)
def test_mistakes_in_a_plugin(here, mistake):
    old, new, message = AUTHOR[mistake]
    assert PLUGIN.count(old) == 1
    (here / "mine.py").write_text(PLUGIN.replace(old, new))
    assert message in line_of("check --unsafe mine.py")  # no word about a sandbox


@pytest.mark.parametrize("reference", ["mine.py", "'randomised(mine.py)'", "mine.py --on cluster.yaml --dry-run"])
def test_no_grid_starts_with_a_plugin_that_cannot_work(here, reference):
    (here / "cluster.yaml").write_text("{partition: x, time_minutes: 60}")
    old, new, message = AUTHOR["a hook raises"]
    (here / "mine.py").write_text(PLUGIN.replace(old, new))
    assert message in line_of(f"run tiny.yaml --encoding {reference}")


def test_no_grid_starts_with_a_plugin_that_no_result_can_hold(here):
    (here / "mine.py").write_text(PLUGIN.replace('"A title"', "7"))
    assert "info of mine: title: Input should be a valid string" in line_of("run tiny.yaml --encoding mine.py")


CAUTIONS = {
    METHOD: (METHOD.replace("bias", "other"), "overrides no hook, so it trains as nope"),
    BODY: ("self.seen = 1 + getattr(self, 'seen', 0)\n        return q.new_tensor(self.seen) * at.distances",
        "gives other outputs in a second pass, so runs that resume get other numbers"),
}  # fmt: skip
"""Text of ``PLUGIN`` → what replaces it, the caution of `lprime run`."""


@pytest.mark.parametrize("old", CAUTIONS)
def test_a_plugin_that_trains_otherwise_than_expected_runs_with_a_caution(here, old):
    new, caution = CAUTIONS[old]
    (here / "mine.py").write_text(PLUGIN.replace(old, new))
    said = printed("run", "tiny.yaml", "--encoding", "mine.py", "--dry-run")
    assert said.startswith("caution: mine") and caution in said


@pytest.mark.parametrize("command", REFERENCES)
def test_mistakes_in_the_reference_to_a_plugin(here, command):
    (here / "mine.py").write_text(PLUGIN)
    assert REFERENCES[command] in line_of(command.replace("check", "check --unsafe"))  # no word about a sandbox


@pytest.mark.parametrize("command", COMMANDS)
def test_mistakes_on_the_command_line(here, command):
    assert COMMANDS[command] in line_of(command)


def test_a_damaged_report_or_probe_stops_no_other_run(here):
    folder = here / "runs/tiny/parity/rope/seed-0"
    (folder / "probe-position.json").write_text("{")
    (folder.parent / "seed-7").mkdir()
    (folder.parent / "seed-7/failure.json").write_text("{")
    for command, said in {
        "run tiny.yaml --out runs --encoding rope --task copying --task parity --seed 7 --dry-run": "1 run of suite tiny",
        "export --probes --to p.csv": "is not a whole probe",
    }.items():
        code, out, err = run_command(*shlex.split(command))
        assert said in out + err, (code, out, err)
    shutil.rmtree(folder.parent / "seed-7")
    (folder / "probe-position.json").unlink()


@pytest.mark.parametrize("mistake", CLUSTERS)
def test_mistakes_in_a_cluster_file(here, mistake):
    changes, message = CLUSTERS[mistake]
    (here / "cluster.yaml").write_text(yaml.safe_dump({"partition": "main", "time_minutes": 60} | changes))
    assert message in line_of("run tiny.yaml --on cluster.yaml")
