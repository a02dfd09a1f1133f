"""Cluster files: strict, and told in one line what is wrong with them. Without a cluster."""

from pathlib import Path

import pytest
import yaml
from support import lprime

from slurm import site
from slurm.cluster import load_cluster, shipped
from slurm.submit import parameters
from tasks import InputError


def written(folder: Path, **changes: object) -> Path:
    path = folder / "cluster.yaml"
    path.write_text(yaml.safe_dump({"partition": "main", "time_minutes": 60} | changes))
    return path


@pytest.mark.parametrize("name", shipped())
def test_every_example_is_a_cluster(name):
    cluster = load_cluster(name)
    assert cluster.at_once >= 1
    assert load_cluster(str(shipped()[name])) == cluster
    assert shipped()[name].read_text().startswith("#"), "an example says what it is for"


def test_the_examples_are_the_common_shapes():
    clusters = {name: load_cluster(name) for name in shipped()}
    assert clusters["gpu-packed"].gpus_per_job and clusters["gpu-packed"].at_once > clusters["gpu-packed"].gpus_per_job
    assert all(clusters[name].gpus_per_job == 0 for name in ("one-partition", "preemptible", "cpu-only"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"partion": "x"}, ["unknown key", "partion", "partition"]),
        ({"time_minutes": "1:00:00"}, ["time_minutes", "1:00:00"]),
        ({"time_minutes": 0}, ["time_minutes"]),
        ({"partition": "two words"}, ["partition", "two words"]),
        ({"gpus_per_job": -1}, ["gpus_per_job"]),
        ({"sbatch": {"time": 5}}, ["sbatch.time", "lprime's to set"]),
        ({"sbatch": {"--job-name": "x"}}, ["sbatch.--job-name"]),
        ({"mps": True}, ["mps", "gpus_per_job is 0"]),
        ({"time_minutes": 1, "save_before_s": 60}, ["save_before_s", "60"]),
        ({"setup": None}, ["setup"]),
        ({"setup": "module load"}, ["setup"]),
    ],
)
def test_mistakes_are_one_line(tmp_path, changes, words):
    done = lprime("run", "quick", "--on", written(tmp_path, **changes), "--dry-run", cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    for word in words:
        assert word in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.yaml"], "nothing is written"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--on", "gpu-paked", "--dry-run"], ["unknown cluster", "gpu-packed"]),
        (["--on", "nowhere.yaml"], ["cannot read cluster", "nowhere.yaml"]),
        (["--dry-run"], ["--dry-run", "--on FILE"]),
        (["--detach"], ["--detach", "--on FILE"]),
        (["--on", "preemptible", "--workers", "3"], ["--workers", "cluster file"]),
        (["--on", "preemptible", "--device", "cuda"], ["--device", "cluster file"]),
        (["--on", "preemptible", "--profile"], ["--profile", "cluster file"]),
    ],
)
def test_options_that_do_not_go_together(tmp_path, arguments, words):
    done = lprime("run", "quick", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    for word in words:
        assert word in done.stderr
    assert not list(tmp_path.iterdir())


def test_results_belong_into_the_shared_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SHARED", str(tmp_path / "shared"))
    cluster = load_cluster(str(written(tmp_path, shared_folder="$SHARED")))
    with pytest.raises(InputError, match="is not a folder here"):
        cluster.out(None)
    (tmp_path / "shared").mkdir()
    assert cluster.out(None) == tmp_path / "shared/runs"
    assert cluster.out(tmp_path / "shared/mine") == tmp_path / "shared/mine"
    with pytest.raises(InputError, match="compute nodes would not see it"):
        cluster.out(tmp_path / "elsewhere")


PLUGIN = """
from bench.encodings import Encoding, Info

class Mine(Encoding):
    info = Info(
        name="mine", family="test", title="A test", authors="Nobody", year=2026, link="https://example.org", formula="q·k",
        past="the same", provenance="a test", shift_invariant=True
    )
"""


@pytest.mark.parametrize("name", ["{}", "{}:Mine", "randomised({}:Mine)"])
def test_the_file_of_an_encoding_belongs_into_the_shared_folder(tmp_path, name):
    (tmp_path / "shared").mkdir()
    mine = tmp_path / "mine.py"
    mine.write_text(PLUGIN)
    cluster = written(tmp_path, shared_folder=str(tmp_path / "shared"))
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


def test_no_slurm_here(tmp_path):
    """Without SLURM a dry run still shows the script; the rest says where it belongs."""
    cluster = written(tmp_path)
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
    assert "no job of suite quick" in lprime("logs", "quick", cwd=tmp_path, **alone).stderr


def test_a_cluster_file_in_submitits_words(tmp_path):
    cluster = load_cluster(
        str(written(tmp_path, gpus_per_job=2, cpus_per_job=6, memory_gb=1.5, mps=True, sbatch={"--exclude": "n7", "nice": 5}))
    )
    chosen = parameters(cluster, "name", tmp_path / "a folder")
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
def test_slurms_way_to_write_times(text, expected):
    """``sinfo -o %l`` writes days-hours:minutes:seconds, from the right."""
    assert site.minutes(text) == expected


def test_a_refusal_that_nobody_foresaw_is_told_as_it_is(tmp_path):
    cluster = load_cluster(str(written(tmp_path)))
    said = "sbatch: error: The moon is in the wrong house\nsbatch: error: Batch job submission failed: Unspecified error"
    assert str(site.refusal(said, cluster)) == "sbatch refused the jobs: The moon is in the wrong house"
