"""``lprime status`` of runs that were never in a job, from the results folder alone. Without a cluster."""

import json
import subprocess
import sys
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from commands import run_command

from bench.runs.run import Run
from bench.runs.run_lock import HEARTBEAT, Heartbeat, lock_run
from bench.suites.suite import load_suite


def rows(suite: Path, out: Path) -> dict[tuple[str, str, int], dict]:
    code, shown, _ = run_command("status", suite, "--out", out, "--json")
    assert code == 0
    return {(row["task"], row["encoding"], row["seed"]): row for row in json.loads(shown)}


def test_runs_of_other_encodings_and_seeds_are_listed(tiny, tmp_path):
    suite, out = tiny(encodings=["nope", "t5"], seeds=[0, 1]), tmp_path / "runs"
    own = {(task, encoding, seed) for task in ("copying", "parity") for encoding in ("nope", "t5") for seed in (0, 1)}
    loaded = load_suite(str(suite))
    paused, failed, running, left = (Run(loaded, "copying", name, 10) for name in ("paused", "failed", "running", "left"))
    for run in (paused, left):
        run.folder(out).mkdir(parents=True)
    (paused.folder(out) / "checkpoint.safetensors").touch()
    failed.fail(out, "for a reason")
    for place in ("tiny/copying/nope/seed-01", "tiny/copying/.old/seed-1", "tiny/other/nope/seed-5"):  # no runs of this suite
        (out / place).mkdir(parents=True)
        (out / place / "checkpoint.safetensors").touch()
    (out / "tiny/copying/notes.txt").touch()
    with lock_run(running.folder(out)):
        found = rows(suite, out)
        code, shown, _ = run_command("status", suite, "--out", out)
    assert code == 0
    others = {key: row["state"] for key, row in found.items() if key not in own}
    assert others == {("copying", name, 10): name for name in ("paused", "failed", "running")}, "an empty folder is not a run"
    assert found["copying", "failed", 10]["reason"] == "for a reason"
    assert "11 runs: 1 failed, 1 running, 1 paused, 8 missing" in shown
    assert "copying failed seed 10: for a reason" in shown


def test_progress_of_running_runs(tiny, tmp_path):
    suite, out = tiny(encodings=["nope", "t5", "rope", "alibi"], seeds=[0]), tmp_path / "runs"
    loaded = load_suite(str(suite))
    half, evaluated, fresh = runs = [Run(loaded, "parity", name, 0) for name in ("nope", "t5", "alibi")]
    now = round(time.time())
    beats = {
        half: Heartbeat(step=20, steps=40, rate=0.2, at=now),
        evaluated: Heartbeat(step=44, steps=44, rate=2, at=now),
    }
    with ExitStack() as stack:
        for run in runs:
            stack.enter_context(lock_run(run.folder(out)))
        for run, beat in beats.items():
            (run.folder(out) / HEARTBEAT).write_text(beat.model_dump_json())
        (fresh.folder(out) / HEARTBEAT).write_text("{")  # damaged
        found = rows(suite, out)
        code, shown, err = run_command("status", suite, "--out", out)
    assert (code, err) == (0, "")
    reported = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
    assert {"state": "running", "step": 20, "steps": 40, "steps_per_s": 0.2, "seconds_left": 100, "reported": reported} == {
        key: value for key, value in found[half.key[:3]].items() if key not in ("task", "encoding", "seed")
    }
    assert found[fresh.key[:3]].keys() == {"task", "encoding", "seed", "state"}
    lines = [line.split() for line in shown.splitlines()]
    assert [next(line[4:-1] for line in lines if line[:4] == ["parity", name, "0", "running"]) for name in ("nope", "t5")] == [
        ["20", "40", "0.2", "100"],
        ["44", "44", "2", "0"],
    ]
    assert ["parity", "alibi", "0", "running"] in lines, "nothing reported yet"
    assert {row["state"] for row in rows(suite, out).values()} == {"missing"}, "a killed process is not running"


def test_a_folder_without_results(tiny, tmp_path):
    suite = tiny()
    code, shown, err = run_command("status", suite, "--out", tmp_path / "nowhere")
    assert (code, err) == (0, "")
    assert f"4 runs: 4 missing; there is no folder {tmp_path / 'nowhere'}" in shown
    code, shown, err = run_command("status", suite, "--out", tmp_path, "--json")
    assert code == 0
    assert {row["state"] for row in json.loads(shown)} == {"missing"}
    assert err == f"lprime: nothing of suite tiny is in {tmp_path}\n"


def test_status_of_known_encodings_does_not_load_torch(tiny, tmp_path):
    """Loading torch would take longer than all the rest of ``lprime status``."""
    (tmp_path / "runs/tiny/parity/mine").mkdir(parents=True)
    suite = tiny(encodings=["rope", "mine"])
    code = f"import sys; from lprime.cli import main\ntry: main(['status', {str(suite)!r}])\nexcept SystemExit: pass\n"
    code += "print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert "4 runs: 4 missing" in done.stdout, done.stderr
    assert "'torch'" not in done.stdout
