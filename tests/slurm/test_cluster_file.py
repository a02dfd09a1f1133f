"""Cluster files: strict, errors reported on one line. Without a cluster."""

from pathlib import Path

import pytest
import yaml
from grids import write_encoding
from support import lprime

from slurm import commands
from slurm.cluster import example_clusters, load_cluster
from slurm.submit import submitit_parameters
from tasks import InputError


def write_cluster(folder: Path, **changes: object) -> Path:
    path = folder / "cluster.yaml"
    path.write_text(yaml.safe_dump({"partition": "main", "time_minutes": 60} | changes))
    return path


@pytest.mark.parametrize("name", example_clusters())
def test_every_example_is_valid(name):
    cluster = load_cluster(name)
    assert cluster.at_once >= 1
    assert load_cluster(str(example_clusters()[name])) == cluster
    assert example_clusters()[name].read_text().startswith("#"), "an example says what it is for"


def test_the_examples_cover_common_sites():
    clusters = {name: load_cluster(name) for name in example_clusters()}
    assert clusters["gpu-packed"].gpus_per_job and clusters["gpu-packed"].at_once > clusters["gpu-packed"].gpus_per_job
    assert all(clusters[name].gpus_per_job == 0 for name in ("one-partition", "preemptible", "cpu-only"))


def test_results_must_be_in_the_shared_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SHARED", str(tmp_path / "shared"))
    cluster = load_cluster(str(write_cluster(tmp_path, shared_folder="$SHARED")))
    with pytest.raises(InputError, match="is not a folder on this machine"):
        cluster.results_folder(None)
    (tmp_path / "shared").mkdir()
    assert cluster.results_folder(None) == tmp_path / "shared/runs"
    assert cluster.results_folder(tmp_path / "shared/mine") == tmp_path / "shared/mine"
    with pytest.raises(InputError, match="compute nodes would not see it"):
        cluster.results_folder(tmp_path / "elsewhere")


@pytest.mark.parametrize("name", ["{}", "{}:Mine", "randomised({}:Mine)"])
def test_the_file_of_an_encoding_must_be_in_the_shared_folder(tmp_path, name):
    (tmp_path / "shared").mkdir()
    mine = write_encoding(tmp_path / "mine.py")
    cluster = write_cluster(tmp_path, shared_folder=str(tmp_path / "shared"))
    command = ["run", "quick", "--on", cluster, "--encoding", "nope", "--encoding"]
    for how in ("--dry-run", "--detach"):
        done = lprime(*command, name.format(mine), how, cwd=tmp_path)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
        assert f"encoding file {mine} is not in the cluster's shared_folder {tmp_path / 'shared'}" in done.stderr
    assert not list(tmp_path.rglob("plan.json"))
    seen = mine.rename(tmp_path / "shared/mine.py")
    done = lprime(*command, name.format(seen), "--dry-run", cwd=tmp_path, env={"PATH": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert "10 runs in" in done.stdout


def test_without_slurm(tmp_path):
    """A dry run still shows the script; the other commands fail on one line."""
    cluster = write_cluster(tmp_path)
    alone = {"env": {"PATH": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2]), "HOME": str(tmp_path)}}
    shown = lprime("run", "quick", "--on", cluster, "--dry-run", cwd=tmp_path, **alone)
    assert shown.returncode == 0, shown.stderr
    assert "#SBATCH --partition=main" in shown.stdout
    assert "no SLURM here" in shown.stdout
    assert not (tmp_path / "runs").exists()
    done = lprime("run", "quick", "--on", cluster, cwd=tmp_path, **alone)
    assert done.returncode == 2
    assert "sbatch was not found" in done.stderr
    cancelled = lprime("cancel", "quick", cwd=tmp_path, **alone)
    assert cancelled.returncode == 2
    assert "was not found" in cancelled.stderr
    assert "no cluster job and no failed run in suite quick" in lprime("logs", "quick", cwd=tmp_path, **alone).stderr


def test_a_cluster_file_as_submitits_parameters(tmp_path):
    sbatch = {"--exclude": "n7", "nice": 5}
    path = write_cluster(tmp_path, gpus_per_job=2, cpus_per_job=6, memory_gb=1.5, mps=True, sbatch=sbatch)
    cluster = load_cluster(str(path))
    chosen = submitit_parameters(cluster, "name", tmp_path / "a folder")
    assert chosen["mem"] == "1536M"
    assert chosen["gpus_per_node"] == 2
    assert chosen["additional_parameters"] == {"requeue": True, "exclude": "n7", "nice": 5}
    assert "--cpus-per-task=6" in chosen["srun_args"]
    assert f"'{tmp_path}/a folder'" in chosen["setup"][0], "quoted for the shell"
    assert any("nvidia-cuda-mps-control" in line for line in chosen["setup"])
    assert "account" not in chosen


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("infinite", float("inf")),
        ("2:00", 2),
        ("1:00:00", 60),
        ("1-00:00:00", 1440),
        ("7-12:30:00", 7 * 1440 + 750),
        ("30", 0.5),
        ("UNLIMITED", float("inf")),
    ],
)
def test_slurms_time_format(text, expected):
    """``sinfo -o %l`` writes days-hours:minutes:seconds, from the right."""
    assert commands.parse_minutes(text) == expected


def test_an_unknown_refusal_is_passed_on(tmp_path):
    cluster = load_cluster(str(write_cluster(tmp_path)))
    said = "sbatch: error: The moon is in the wrong house\nsbatch: error: Batch job submission failed: Unspecified error"
    assert str(commands.explain_refusal(said, cluster)) == "sbatch refused the jobs: The moon is in the wrong house"
