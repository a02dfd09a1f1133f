"""Encodings with the same training, run by the real command: it trains once, in any order and with several workers."""

import os
import signal
import subprocess

from support import lprime, results, start_lprime, wait_for

NAMES = ("rope", "yarn", "ntk", "finetuned(rope)")


def run(suite, out, *options: object, encodings=NAMES) -> str:
    """Output of ``lprime run`` for the task copying."""
    chosen = [part for name in encodings for part in ("--encoding", name)]
    done = lprime("run", suite, "--task", "copying", "--out", out, *chosen, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def files(out) -> set[str]:
    return {str(p.relative_to(out / "tiny/copying")) for p in out.rglob("*") if p.is_file() and p.name != "result.json"}


def test_stretched_forms_after_rope_train_nothing(tiny, tmp_path):
    suite, out, other = tiny(recipe={"steps": 200}), tmp_path / "one", tmp_path / "other"
    run(suite, out, encodings=["rope"])
    weights = out / "tiny/copying/rope/seed-0/weights.safetensors"
    written = weights.stat().st_mtime_ns
    text = run(suite, out, "--workers", 1, encodings=NAMES[1:])
    assert text.count("trained as rope") == 3
    assert weights.stat().st_mtime_ns == written
    assert files(out) == {"rope/seed-0/weights.safetensors"}
    # Two workers at once, with the training form last, and killed in the middle.
    chosen = [part for name in reversed(NAMES) for part in ("--encoding", name)]
    command = ("run", suite, "--task", "copying", "--out", other, "--workers", 2, *chosen, "--checkpoint-every", 0)
    process = start_lprime(*command, stdout=subprocess.DEVNULL)
    wait_for(process, other, "*.safetensors")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    run(suite, other, "--workers", 2, encodings=NAMES[::-1])
    assert results(other) == results(out)
    assert files(other) == {"rope/seed-0/weights.safetensors"}


def test_weights_are_kept_on_request(tiny, tmp_path):
    run(tiny(), tmp_path / "runs", "--keep-weights", encodings=["nope"])
    assert files(tmp_path / "runs") == {"nope/seed-0/weights.safetensors"}
    assert "nothing to run" in run(tiny(), tmp_path / "runs", encodings=["nope"])
