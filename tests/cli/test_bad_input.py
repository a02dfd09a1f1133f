"""Bad input: one line that names what was given, what was expected and the nearest match; exit code 2; no file is changed."""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from commands import printed, run_command
from plugin_files import source_of_one
from support import lprime, start_lprime, suite_dict


def test_a_disk_that_fills_up_during_a_run_leaves_no_partial_file_and_no_failure(tiny, tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))  # checkpoints do not fit, reports would

    command = ("run", tiny(), "--out", tmp_path / "runs", "--task", "parity", "--encoding", "t5")
    process = start_lprime(*command, preexec_fn=limit)
    shown, errors = process.communicate()
    assert process.returncode == 1
    assert "cannot write" in shown and "File too large" in shown
    assert "Traceback" not in errors
    files = {p.name for p in (tmp_path / "runs").rglob("*") if p.is_file()}
    assert files <= {"lock", "training.lock"}
    assert lprime(*command).returncode == 0  # with space again, the same command makes the run


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Path, Path]:
    """A tiny suite with one run done: its suite file and its results folder."""
    folder = tmp_path_factory.mktemp("finished")
    suite = folder / "tiny.yaml"
    suite.write_text(yaml.safe_dump(suite_dict(encodings=["nope"], tasks=[suite_dict()["tasks"][0]])))
    done = lprime("run", suite, "--out", folder / "runs")
    assert done.returncode == 0, done.stderr
    return suite, folder / "runs"


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda t: t[: len(t) // 2], "is not a whole result"),
        (lambda t: t.replace('"steps": 40', f'"steps": {2**64}'), "is not a whole result (steps: "),
        (lambda t: t.replace('"step_ms": ', '"step_ms": -'), "is not a whole result (timings.step_ms: "),
        (lambda t: t.replace('"started": "', '"started": "yesterday '), "is not a whole result (started: "),
        (lambda t: t.replace('"seed": 0', '"seed": 7'), "holds the result of tiny/copying/nope/seed-7"),
        (lambda t: json.dumps(json.loads(t) | {"extra": 1}), "was written by another version of lprime (extra: "),
    ],
)
def test_damaged_results_are_named_and_kept(finished, damage, fault):
    suite, out = finished
    (path,) = out.rglob("result.json")
    whole = path.read_text()
    path.write_text(damage(whole))
    try:
        for command in ("status", "run"):
            code, said, _ = run_command(command, suite, "--out", out)
            assert code == 1 and str(path) in said and fault in said
        assert path.read_text() == damage(whole) != whole, "only the user deletes it"
    finally:
        path.write_text(whole)


def test_results_of_another_version_of_the_suite_are_refused(finished, tmp_path):
    suite, out = finished
    changed = tmp_path / "tiny.yaml"
    changed.write_text(suite.read_text().replace("learning_rate: 0.002", "learning_rate: 0.004"))
    (code, said, _), board = (run_command(one, changed, "--out", out) for one in ("run", "board"))
    assert code == 1 and "keep the two apart with another --out" in said and "was made by suite tiny with" in board[2]


def test_help_loads_no_heavy_packages():
    """Imports dominate the time of help; the time itself is measured by ``make speed``."""
    code = "import sys; from lprime.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\nprint(sorted(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert "Usage:" in shown
    for heavy in ("'torch'", "'numpy'", "'pydantic'", "'datasets'", "'matplotlib'", "'yaml'"):
        assert heavy not in shown, heavy


NOISY = """
import os
print("printed")
os.write(1, b"written past Python")
"""


def test_json_is_all_that_stdout_holds_though_a_plugin_prints(here):
    (here / "mine.py").write_text(source_of_one(imports=NOISY))
    done = subprocess.run([sys.executable, "-m", "lprime", "show", "mine.py", "--json"], capture_output=True, text=True)
    assert json.loads(done.stdout)[0]["name"] == "mine" and "printed" in done.stderr and "written past" in done.stderr
    assert json.loads(printed("list", "tasks", "--json")), "a stand-in for stdout gets it too"


INTERRUPTED = """
import builtins, os, runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background ignore it
found = builtins.__import__
def load(name, *rest, **more):
    if name == "typer":
        os.kill(os.getpid(), signal.SIGINT)
    return found(name, *rest, **more)
builtins.__import__ = load
runpy.run_module("lprime", run_name="__main__")
"""


def test_ctrl_c_during_the_imports_is_no_traceback():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_a_closed_pipe_is_no_error_and_a_full_disk_is_one_line():
    reader, writer = os.pipe()
    os.close(reader)
    for place, said in ((writer, ""), ("/dev/full", "lprime: cannot write the output: No space left on device\n")):
        with open(place, "wb") as out:
            ended = subprocess.run([sys.executable, "-m", "lprime", "--version"], stdout=out, stderr=subprocess.PIPE, text=True)
        assert (ended.returncode, ended.stderr) == (2 if said else 1, said)


def test_a_folder_that_may_not_be_written_has_a_board(finished):
    """As root, who may write everywhere, without that right."""
    _, out = finished
    limited = ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []
    folders = [path for path in (out, *out.rglob("*")) if path.is_dir()]
    for folder in folders:
        folder.chmod(0o555)
    try:
        for more, shown in ((), "Suite tiny"), (("--json",), '"suite": "tiny"'):
            command = [*limited, sys.executable, "-m", "lprime", "board", "--out", str(out), *more]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0 and shown in done.stdout, done.stderr
    finally:
        for folder in folders:
            folder.chmod(0o755)
