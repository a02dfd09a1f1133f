"""The benchmark on a large grid: its content and output. Without a cluster."""

import re
import subprocess
import sys

from slurm_grid import write_large_grid
from support import ROOT, lprime


def test_status_and_dry_run_of_thousands_of_runs_of_which_half_are_done(tmp_path, monkeypatch):
    assert write_large_grid(tmp_path, 3_960) == (3_960, 1_980)
    shown = lprime("status", "big.yaml", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "3960 runs: 1980 done, 1980 missing" in shown.stdout
    monkeypatch.setenv("PATH", str(tmp_path))  # no SLURM
    planned = lprime("run", "big.yaml", "--on", "site.yaml", "--dry-run", cwd=tmp_path)
    assert planned.returncode == 0, planned.stderr
    assert "#SBATCH --array=0-989" in planned.stdout, "SLURM's default limit"
    assert "1980 runs in 990 jobs" in planned.stdout


def test_each_command_is_timed():
    command = [sys.executable, str(ROOT / "benchmarks/slurm_grid.py"), "--runs=120"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("120 runs, 60 of them with results; seconds: ")
    assert re.findall(r"([a-z -]+) \d+\.\d\d", done.stdout) == [" status", " run --dry-run", " board", " export"]
