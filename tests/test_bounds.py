"""``.ci/bounds``: fails when the code or the documents exceed a bound."""

import subprocess
import sys
from pathlib import Path

import pytest

BOUNDS = Path(__file__).parents[1] / ".ci" / "bounds"


SIZES = [
    ({"tasks/many.py": "x = 1\n" * 301}, "301 of     300  lines of the longest source file, tasks/many.py"),
    ({f"lprime/m{n}.py": "x = 1\n" * 300 for n in range(61)}, "18,300 of  18,000  lines of installed Python"),
    ({"README.md": "word " * 8001}, "8,001 of   8,000  words of hand-written markdown"),
    ({"leaderboard/published/page.md": "word " * 60_001}, "60,001 of  60,000  words of generated markdown"),
    ({"benchmarks/cpu.py": "x = 1\n" * 801}, "801 of     800  lines of benchmarks"),
    ({"tests/test_x.py": "x = 1\n" * 13_001}, "13,001 of  13,000  lines of tests"),
    ({"bench/page.js": "x\n" * 1501}, "1,501 of   1,500  lines of templates"),
]


@pytest.mark.parametrize(("files", "message"), SIZES)
def test_a_size_over_its_bound_fails(tmp_path, files, message):
    for file, content in files.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(content)
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    done = subprocess.run([sys.executable, BOUNDS, tmp_path], capture_output=True, text=True)
    assert done.returncode == 1 and message in done.stdout
    assert done.stdout.count("TOO MUCH") == 1
