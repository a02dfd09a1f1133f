"""The benchmark on a large grid: its content and output. Without a cluster."""

import re
import subprocess
import sys

from support import ROOT, lprime

from slurm.benchmarks.large_grid import write_large_grid


def test_status_and_dry_run_of_four_thousand_runs_of_which_half_are_done(tmp_path, monkeypatch):
    assert write_large_grid(tmp_path, 4_000) == (4_000, 2_000)
    shown = lprime("status", "big.yaml", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "4000 runs: 2000 done, 2000 missing" in shown.stdout
    monkeypatch.setenv("PATH", str(tmp_path))  # no SLURM
    planned = lprime("run", "big.yaml", "--on", "site.yaml", "--dry-run", cwd=tmp_path)
    assert planned.returncode == 0, planned.stderr
    assert "#SBATCH --array=0-1000" in planned.stdout, "SLURM's default limit"
    assert "2000 runs in 2000 jobs, 2 arrays of at most 1001" in planned.stdout


def test_each_command_is_timed():
    command = [sys.executable, "-m", "slurm.benchmarks.large_grid", "--runs=80", "--repeats=1"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^(.+?) +median \d+\.\d\d", done.stdout, re.MULTILINE) == ["status", "status --json", "run --dry-run"]
    assert done.stdout.startswith("80 runs, 40 of them with results")
