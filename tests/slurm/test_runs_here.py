"""Runs that no job ever had: ``lprime status`` and ``lprime logs`` read them off the results folder. Without a cluster."""

import json
from pathlib import Path

import pytest
from support import lprime

from bench.cli import main
from bench.runs import Run, lock
from bench.suite import load_suite

BREAKS = """
from bench.encodings import Encoding, Info

class Fragile(Encoding):
    info = Info(
        name="fragile", family="test", title="A test", authors="Nobody", year=2026, link="https://example.org", formula="q·k",
        past="breaks", provenance="a test", shift_invariant=True
    )

    def embed(self, x, at):
        raise RuntimeError("it breaks at once")
"""


def said(capsys: pytest.CaptureFixture, *arguments: object) -> tuple[int, str, str]:
    """Exit code, output and errors of the command, run in this process."""
    with pytest.raises(SystemExit) as exit_:
        main([str(a) for a in arguments])
    return exit_.value.code, *capsys.readouterr()


def rows(capsys: pytest.CaptureFixture, suite: Path, out: Path) -> dict[tuple[str, str, int], dict]:
    code, shown, _ = said(capsys, "status", suite, "--out", out, "--json")
    assert code == 0
    return {(row["task"], row["encoding"], row["seed"]): row for row in json.loads(shown)}


def test_runs_of_other_encodings_and_seeds_are_listed(tiny, tmp_path, capsys):
    suite, out = tiny(encodings=["nope", "t5"], seeds=[0, 1]), tmp_path / "runs"
    done = lprime(
        "run", suite, "--out", out, "--task", "parity", "--encoding", "rope(base=500)", "--encoding", "t5", "--seed", 7
    )
    assert done.returncode == 0, done.stderr
    own = {(task, encoding, seed) for task in ("copying", "parity") for encoding in ("nope", "t5") for seed in (0, 1)}
    found = rows(capsys, suite, out)
    assert {key: row["state"] for key, row in found.items() if key not in own} == {
        ("parity", "rope(base=500.0)", 7): "done",
        ("parity", "t5", 7): "done",
    }
    assert {row["state"] for key, row in found.items() if key in own} == {"missing"}
    loaded = load_suite(str(suite))
    paused, failed, running, left = (Run(loaded, "copying", name, 10) for name in ("paused", "failed", "running", "left"))
    for run in (paused, left):
        run.folder(out).mkdir(parents=True)
    (paused.folder(out) / "checkpoint.safetensors").touch()
    failed.fail(out, "for a reason")
    # What is named as no run is, belongs to another suite, or is a file.
    for place in (
        "tiny/copying/nope/seed-01",
        "tiny/copying/.old/seed-1",
        "tiny/other/nope/seed-5",
        "small/copying/nope/seed-5",
    ):
        (out / place).mkdir(parents=True)
        (out / place / "checkpoint.safetensors").touch()
    (out / "tiny/copying/notes.txt").touch()
    with lock(running.folder(out)):
        found = rows(capsys, suite, out)
        code, shown, _ = said(capsys, "status", suite, "--out", out)
    assert code == 0
    others = {key: row["state"] for key, row in found.items() if key not in own and key[0] == "copying"}
    assert others == {("copying", name, 10): name for name in ("paused", "failed", "running")}, (
        "and nothing was ever begun in left"
    )
    assert found["copying", "failed", 10]["reason"] == "for a reason"
    assert "13 runs: 2 done, 1 failed, 1 running, 1 paused, 8 missing" in shown
    assert "copying failed seed 10: for a reason" in shown


def test_a_damaged_result_of_another_encoding_is_named(tiny, tmp_path, capsys):
    place = tmp_path / "runs/tiny/parity/mine/seed-0"
    place.mkdir(parents=True)
    (place / "result.json").write_text("{")
    code, _, err = said(capsys, "status", tiny(), "--out", tmp_path / "runs")
    assert code == 2
    assert f"{place / 'result.json'} is not a whole result" in err


def test_a_folder_where_nothing_is(tiny, tmp_path, capsys):
    suite = tiny()
    code, shown, err = said(capsys, "status", suite, "--out", tmp_path / "nowhere")
    assert (code, err) == (0, "")
    assert f"4 runs: 4 missing; there is no folder {tmp_path / 'nowhere'}" in shown
    code, shown, err = said(capsys, "status", suite, "--out", tmp_path, "--json")
    assert code == 0
    assert {row["state"] for row in json.loads(shown)} == {"missing"}
    assert err == f"lprime: nothing of suite tiny is in {tmp_path}\n"


def test_why_a_local_run_failed(tiny, tmp_path, capsys):
    suite, out, plugin = tiny(seeds=[0]), tmp_path / "runs", tmp_path / "fragile.py"
    plugin.write_text(BREAKS)
    done = lprime("run", suite, "--out", out, "--encoding", plugin, "--encoding", "nope", "--task", "parity")
    assert done.returncode == 1
    report = out / "tiny/parity/fragile/seed-0/failure.json"
    for asked in ((), ("--encoding", "fragile"), ("--encoding", plugin, "--seed", 0), ("--task", "parity")):
        code, shown, _ = said(capsys, "logs", suite, "--out", out, *asked)
        assert code == 0
        first, *traceback, reason, _, _ = shown.split("\n")
        assert first == f"==> {report} <=="
        assert 'raise RuntimeError("it breaks at once")' in "".join(traceback)
        assert reason == "RuntimeError: it breaks at once"
    assert said(capsys, "logs", suite, "--out", out, "--encoding", "fragil")[2].endswith("did you mean 'fragile'?\n")
    for asked, whose in ((("--encoding", "nope"), "nope"), (("--encoding", "fragile", "--seed", 3), "fragile 3")):
        code, _, err = said(capsys, "logs", suite, "--out", out, *asked)
        assert code == 2
        assert f"ever had a run of {whose}, and none failed here" in err
    assert not Run(load_suite(str(suite)), "parity", "nope", 0).failure(out)


def test_names_of_the_shipped_suites_and_of_runs_here_need_no_torch(tiny, tmp_path):
    """It takes longer to load than all the rest of ``lprime status``."""
    import subprocess
    import sys

    (tmp_path / "runs/tiny/parity/mine").mkdir(parents=True)
    suite = tiny(encodings=["rope", "mine"])
    code = f"import sys; from bench.cli import main\ntry: main(['status', {str(suite)!r}])\nexcept SystemExit: pass\n"
    code += "print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert "4 runs: 4 missing" in done.stdout, done.stderr
    assert "'torch'" not in done.stdout


def test_watching_waits_for_no_run_that_nobody_asked_for(tiny, tmp_path, capsys):
    suite, out = tiny(encodings=["nope"], seeds=[0]), tmp_path / "runs"
    loaded = load_suite(str(suite))
    for spec in loaded.tasks:
        Run(loaded, spec.task, "nope", 0).fail(out, "over")
    left = Run(loaded, "copying", "rope", 0).folder(out)
    left.mkdir(parents=True)
    (left / "checkpoint.safetensors").touch()
    assert [row["state"] for row in rows(capsys, suite, out).values()].count("paused") == 1
    code, shown, _ = said(capsys, "status", suite, "--out", out, "--watch", "--every", 3600)  # it would not end
    assert code == 0 and "paused" in shown
