"""``.ci/bounds``: fails when the code or the documents exceed a bound."""

import subprocess
import sys
from pathlib import Path

import pytest

BOUNDS = Path(__file__).parents[1] / ".ci" / "bounds"


LONG = "x = 1\n" * 300
SIZES = [
    ({"tasks/many.py": LONG * 2}, "lines of the longest source file, tasks/many.py"),
    ({f"lprime/m{n}.py": LONG for n in range(200)}, "lines of installed Python"),
    ({"README.md": "word " * 90_000}, "words of hand-written markdown"),
    ({"leaderboard/published/page.md": "word " * 90_000}, "words of generated markdown"),
    ({"benchmarks/cpu.py": LONG * 50}, "lines of benchmarks"),
    ({"tests/test_x.py": LONG * 90}, "lines of tests"),
    ({"bench/page.js": LONG * 50}, "lines of templates"),
]


@pytest.mark.parametrize(("files", "message"), SIZES)
def test_a_size_over_its_bound_fails(tmp_path, files, message):
    for file, content in files.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(content)
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    done = subprocess.run([sys.executable, BOUNDS, tmp_path], capture_output=True, text=True)
    (said,) = [line for line in done.stdout.splitlines() if "TOO MUCH" in line]
    assert done.returncode == 1 and message in said
