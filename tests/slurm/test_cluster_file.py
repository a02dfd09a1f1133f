"""Cluster files: strict, errors reported on one line. Without a cluster."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from commands import printed, run_command
from grids import write_large_grid
from stand_ins import SUITE, planned, submitted

from bench.runs.run import plan_runs
from bench.suites.suite import load_suite
from bench.suites.yaml_config import yaml_files
from slurm.cluster import load_cluster
from slurm.job import NOT_SHARED
from slurm.submit import job_script, log_options


def write_cluster(folder: Path, **changes: object) -> Path:
    path = folder / "cluster.yaml"
    path.write_text(yaml.safe_dump({"partition": "main", "time_minutes": 60} | changes))
    return path


def preview(*arguments: object) -> str:
    return printed("run", *arguments, "--dry-run")


def test_a_dry_run_writes_nothing_and_needs_no_slurm(tmp_path, monkeypatch):
    """The other commands fail on one line."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    cluster = write_cluster(tmp_path)
    shown = preview("quick", "--on", cluster)
    assert "#SBATCH --partition=main" in shown and "30 runs in " in shown
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.yaml"]
    code, _, said = run_command("run", "quick", "--on", cluster)
    assert code == 2 and "sbatch was not found" in said


def test_more_runs_at_a_time_than_cpus_do_not_make_a_grid_cheaper(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def hours(**changes):
        shown = preview("small", "--on", write_cluster(tmp_path, time_minutes=240, runs_per_job=10, **changes))
        return float(re.search(r"about ([\d.]+) CPU-hours", shown)[1])

    assert hours(cpus_per_job=2, runs_at_once=10) == pytest.approx(hours(cpus_per_job=2), rel=0.2)


def test_status_and_dry_run_of_thousands_of_runs_of_which_half_are_done(tmp_path, monkeypatch):
    assert write_large_grid(tmp_path, 3_960) == (3_960, 1_980)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))  # no SLURM
    assert "3960 runs: 1980 done, 1980 missing" in printed("status", "big.yaml")
    shown = preview("big.yaml", "--on", "site.yaml")
    assert "#SBATCH --array=0-989" in shown and "1980 runs in 990 jobs" in shown, "within SLURM's default limit"


def script_of(cluster: Path, out: Path) -> str:
    """The script of two jobs on a cluster."""
    return job_script(planned(out, plan_runs(load_suite("quick"), ["nope", "rope"], ["parity"]), load_cluster(str(cluster))))


def options_in(script: str) -> dict[str, str]:
    return dict(re.findall(r"^#SBATCH --([a-z-]+)=?(.*)$", script, re.MULTILINE))


def test_a_cluster_file_as_options_of_sbatch(tmp_path):
    sbatch = {"exclude": "n7", "nice": 5, "exclusive": True, "oversubscribe": False, "gres": "lscratch:9"}
    sizes = {"cpus_per_job": 6, "memory_gb": 1.5, "jobs_at_once": 1, "runs_per_job": 1, "mps": True}
    sizes |= {"srun_args": ["--mpi=none"]} | (own := {"account": "lab", "qos": "low", "constraint": "a100"})
    file = write_cluster(tmp_path, sbatch=sbatch, partition="a,b", gpus_per_job="h100:2", **sizes)
    cluster = load_cluster(str(file))
    assert (cluster.gpus, cluster.device, cluster.packed(64).at_once, cluster.packed(256).at_once) == (2, "cuda", 12, 8)
    script = script_of(file, tmp_path)
    found = options_in(script)
    assert found.pop("job-name").startswith("lprime-quick-")
    assert found == {
        **{"partition": "a,b", "time": "60", "mem": "1536M", "nodes": "1", "ntasks-per-node": "1", "cpus-per-task": "6"},
        **{"gpus-per-node": "h100:2", "array": "0-1%1", "signal": "USR2@90", "requeue": ""},
        **own,
        **{"exclude": "n7", "nice": "5", "exclusive": "", "gres": "lscratch:9"},
    }
    assert "srun --unbuffered --cpus-per-task=6 --mpi=none " in script and "nvidia-cuda-mps-control -d" in script
    assert options_in(script_of(write_cluster(tmp_path, memory_gb=0.0003), tmp_path))["mem"] == "1M", "0 means all"
    with pytest.raises(ValueError, match=r"sbatch\.comment"):  # the second line would be a command
        load_cluster(str(write_cluster(tmp_path, sbatch={"comment": "a\ntouch x"})))
    for name, fault in {"time": "sbatch sets time, on which lprime relies", "--hold": "pattern", "": "pattern"}.items():
        with pytest.raises(ValueError, match=fault):
            load_cluster(str(write_cluster(tmp_path, sbatch={name: "mine"})))


@pytest.mark.parametrize("name", yaml_files("slurm", "clusters"))
def test_the_script_of_every_example_is_a_shell_script(tmp_path, name):
    cluster = load_cluster(name)
    script = job_script(planned(tmp_path, plan_runs(load_suite("quick")), cluster))
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert options_in(script)["partition"] == cluster.partition
    assert all(line in script for line in cluster.setup)


@pytest.mark.parametrize("name", ['a"b', "a'b", "$(touch x)", "`touch x`", "a b", "a\nb", "100%j", "%A_%a", "\\"])
def test_names_of_folders_are_only_names(tmp_path, name):
    """The script runs with stand-ins for srun and python, and must pass the folder on as it is."""
    out, log, here = tmp_path / name, tmp_path / "log", tmp_path / "here"
    here.mkdir()
    write_commands(tmp_path / "bin", {"python3": f'[ "$2" = -c ] || for last; do printf %s "$last" > {log}; done', **PASS_ON})
    plan = submitted(out, plan_runs(SUITE), load_cluster(str(write_cluster(tmp_path, python="python3"))))
    environment = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
    done = subprocess.run(["bash"], input=job_script(plan), env=environment, cwd=here, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert log.read_text() == str(plan.folder)
    assert not list(here.iterdir())
    output = log_options(plan)[0].removeprefix("--output=")
    assert re.sub("%(.)", lambda match: "%" if match[1] == "%" else "7", output) == f"{plan.folder}/7.log", "as sbatch reads it"


PASS_ON = {"srun": """while [ "$1" != sh ]; do shift; done; exec "$@\"""", "hostname": "echo node"}
FAKES = PASS_ON | {
    # Runs a command that must not find the cluster's commands, as in a container: sees only what is bound.
    "apptainer": """[ "$1 $2 $3 $5" = "exec --nv --bind /image.sif" ] || exit 1
bind=$4; shift 5; echo "inside $bind: $*" >> LOG; case "$*" in *-c*) exit 0;; esac; exit CODE""",
    "scontrol": 'echo "scontrol $*" >> LOG',
}


def write_commands(folder: Path, texts: dict[str, str]) -> None:
    """Write shell scripts that stand in for commands."""
    folder.mkdir()
    for name, text in texts.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / name).chmod(0o755)


def test_a_node_that_does_not_see_the_results_folder(tmp_path):
    done = subprocess.run(["bash"], input=job_script(planned(tmp_path, plan_runs(SUITE))), capture_output=True, text=True)
    assert done.returncode == NOT_SHARED and "the results folder is not visible" in done.stderr


@pytest.mark.parametrize(("code", "requeued"), [(93, True), (0, False), (99, False)])
def test_a_container_without_slurms_commands_is_requeued_by_its_batch_script(tmp_path, code, requeued):
    """The script as sbatch would run it, with stand-ins for Apptainer, srun and scontrol."""
    python = f"apptainer exec --nv --bind {tmp_path} /image.sif python3"
    cluster = load_cluster(str(write_cluster(tmp_path, python=python, gpus_per_job="h100:1")))
    plan = submitted(tmp_path, plan_runs(SUITE), cluster)
    log = tmp_path / "log"
    write_commands(
        tmp_path / "bin", {name: text.replace("LOG", str(log)).replace("CODE", str(code)) for name, text in FAKES.items()}
    )
    environment = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "SLURM_ARRAY_JOB_ID": "10", "SLURM_ARRAY_TASK_ID": "3"}
    done = subprocess.run(["bash"], input=job_script(plan), env=environment, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    lines = log.read_text().splitlines()
    assert f"inside {tmp_path}: python3 -P -c import slurm.job" == lines[0]
    assert "python3 -P -u -m slurm.job" in lines[1]
    assert lines[2:] == (["scontrol requeue 10_3"] if requeued else [])
