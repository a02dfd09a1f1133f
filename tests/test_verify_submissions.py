"""``.ci/verify-submissions``, which checks the submissions of a pull request."""

import shutil
import subprocess

import pytest
from support import ROOT, git

SCRIPT = ".ci/verify-submissions"


@pytest.fixture
def checkout(tmp_path):
    """A checkout whose ``lprime check`` passes the folders that hold a file ``good``, and says what it was called with."""
    lprime = tmp_path / ".venv/bin/lprime"
    lprime.parent.mkdir(parents=True)
    lprime.write_text('#!/bin/sh\necho "$@"; test -e "$3/good"\n')
    lprime.chmod(0o755)
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / SCRIPT, tmp_path / SCRIPT)
    (tmp_path / ".gitignore").write_text(".venv/\n")
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "base")
    return tmp_path


@pytest.mark.parametrize(
    ("files", "code", "expected"),
    [
        (["leaderboard/submissions/mine/good"], 0, "check --sandbox leaderboard/submissions/mine"),
        (["leaderboard/submissions/a b/good", "leaderboard/submissions/bad/x"], 1, "--sandbox leaderboard/submissions/bad"),
        (["leaderboard/submissions/mine/good", SCRIPT], 2, f"also changes:\n{SCRIPT}"),
        (["leaderboard/submissions/mine/good", "leaderboard/submissions/x.py"], 2, "changes: leaderboard/submissions/x.py"),
    ],
)
def test_a_pull_request(checkout, files, code, expected):
    git(checkout, "switch", "-qc", "pull")
    for file in files:
        (checkout / file).parent.mkdir(parents=True, exist_ok=True)
        (checkout / file).write_text("exit 0\n")
    git(checkout, "add", ".")
    git(checkout, "commit", "-qm", "pull request")
    git(checkout, "switch", "-q", "main")
    done = subprocess.run([checkout / SCRIPT, "pull"], capture_output=True, text=True)
    assert (done.returncode, expected in done.stdout + done.stderr) == (code, True), done.stdout + done.stderr
