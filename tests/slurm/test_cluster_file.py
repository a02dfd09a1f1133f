"""Cluster files: strict, errors reported on one line. Without a cluster."""

import math
import random
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from commands import printed, refused, run_command
from grids import write_encoding

from bench.runs.estimate import duration
from bench.runs.run import plan_runs
from bench.suites.suite import load_suite
from slurm import commands
from slurm.cluster import example_clusters, load_cluster
from slurm.script import job_script, log_options
from slurm.submit import plan_submissions
from tasks import InputError


def write_cluster(folder: Path, **changes: object) -> Path:
    path = folder / "cluster.yaml"
    path.write_text(yaml.safe_dump({"partition": "main", "time_minutes": 60} | changes))
    return path


def test_results_must_be_in_the_shared_folder(tmp_path, monkeypatch):
    cluster = load_cluster(str(write_cluster(tmp_path, shared_folder="${SHARED}/lprime")))
    monkeypatch.delenv("SHARED", raising=False)
    with pytest.raises(InputError, match=r"\$SHARED in shared_folder \$\{SHARED\}/lprime is not set here"):
        cluster.results_folder(None)
    monkeypatch.setenv("SHARED", str(tmp_path))
    with pytest.raises(InputError, match="is not a folder on this machine"):
        cluster.results_folder(None)
    assert cluster.results_folder(None, dry_run=True) == tmp_path / "lprime/runs"
    (tmp_path / "lprime").mkdir()
    assert cluster.results_folder(None) == tmp_path / "lprime/runs"
    assert cluster.results_folder(tmp_path / "lprime/mine") == tmp_path / "lprime/mine"
    with pytest.raises(InputError, match="compute nodes would not see it"):
        cluster.results_folder(tmp_path / "elsewhere")


def preview(*arguments: object) -> str:
    return printed("run", *arguments, "--dry-run")


def test_a_dry_run_needs_neither_the_shared_folder_nor_its_variable(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SHARED", raising=False)
    cluster = write_cluster(tmp_path, shared_folder="$SHARED/x")
    assert "caution: $SHARED is not set here, so shared_folder stays $SHARED/x\n" in preview("quick", "--on", cluster)
    monkeypatch.setenv("SHARED", str(tmp_path))
    assert f"caution: shared_folder {tmp_path}/x does not exist here yet\n" in preview("quick", "--on", cluster)
    one = "quick", "--task", "copying", "--encoding", "nope", "--seed", 0, "--on", cluster
    shown = printed("probe", "position", *one, "--dry-run"), preview(*one, "--keep-weights")
    missing, run = (re.sub(r"\b[0-9a-f]{12}\b", "launch", text) for text in shown)
    assert "#SBATCH" in missing and missing == run, "what is missing is trained as a run is"
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.yaml"], "nothing is written"


def seconds_in(text: str) -> float:
    """``12 s``, ``2:03 minutes`` or ``6:10 hours`` as seconds."""
    number, unit = text.split()
    if unit == "s":
        return float(number)
    large, small = map(int, number.split(":"))
    return (60 * large + small) * (60 if unit == "hours" else 1)


SPAN = r"([\d:.]+ (?:s|minutes|hours))"


@pytest.mark.parametrize("runs_per_job", [1, 5, None])
def test_runs_that_do_not_suit_the_cluster_are_named(tmp_path, monkeypatch, runs_per_job):
    """``standard`` with fifteen times the steps takes 5 to 20 hours a run on a CPU, by its FLOPs."""
    monkeypatch.chdir(tmp_path)
    suite = load_suite("standard").model_dump(mode="json", exclude_none=True)
    suite["tasks"] = [spec | {"recipe": {"steps": 15 * spec["recipe"]["steps"]}} for spec in suite["tasks"]]
    Path("long.yaml").write_text(yaml.safe_dump(suite | {"name": "long"}))
    sizes = {"cpus_per_job": 4} | ({"runs_per_job": runs_per_job} if runs_per_job else {})
    shown = preview("long.yaml", "--on", write_cluster(tmp_path, time_minutes=240, **sizes))
    shortest, longest = map(seconds_in, re.search(rf"a run takes {SPAN} to {SPAN} \(guessed", shown).groups())
    (job,) = map(seconds_in, re.search(rf"the longest job about {SPAN}\n", shown).groups())
    assert 5 * 3600 < shortest < longest < 20 * 3600 and job >= longest
    (times,) = re.search(r"a job at most 4:00 hours: it is requeued (\d) times; raise time_minutes", shown).groups()
    assert int(times) == math.ceil(longest / (4 * 3600 - 90)) - 1


def test_too_many_runs_at_a_time_are_named_and_do_not_make_a_grid_cheaper(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def hours(**changes):
        shown = preview("small", "--on", write_cluster(tmp_path, time_minutes=240, runs_per_job=10, **changes))
        return shown, float(re.search(r"about ([\d.]+) CPU-hours", shown)[1])

    suits, expected = hours(cpus_per_job=2, memory_gb=2)
    assert "caution" not in suits
    shown, found = hours(cpus_per_job=2, runs_at_once=10)
    assert found == pytest.approx(expected, rel=0.2)
    assert "caution: 10 runs at a time take turns on 2 CPUs of a job: raise cpus_per_job\n" in shown
    packed = preview("small", "--on", write_cluster(tmp_path, gpus_per_job=1, runs_at_once=10))
    assert "caution: 10 runs at a time take turns on 1 CPU of a job" in packed, "a run on a GPU needs a CPU too"
    assert "caution: memory_gb is 4 for 10 runs at a time, which may take 0.7 GB each: raise it to 7\n" in shown


def test_how_long_a_job_takes():
    """Against a simulation with a list of free times."""
    generator = random.Random(0)
    for _ in range(50):
        seconds, at_once = [generator.uniform(1, 9) for _ in range(generator.randint(1, 12))], generator.randint(1, 5)
        free = [0.0] * at_once
        for takes in seconds:
            free[free.index(min(free))] += takes
        assert duration(seconds, at_once) == pytest.approx(max(free))
        assert duration(seconds, at_once) >= max(seconds)


@pytest.mark.parametrize("name", ["{}", "{}:Mine", "randomised({}:Mine)"])
def test_the_file_of_an_encoding_must_be_in_the_shared_folder(tmp_path, monkeypatch, name):
    monkeypatch.setenv("PATH", str(tmp_path))  # no SLURM
    (tmp_path / "shared").mkdir()
    mine = write_encoding(tmp_path / "mine.py")
    command = ["run", "quick", "--on", write_cluster(tmp_path, shared_folder=str(tmp_path / "shared")), "--encoding", "nope"]
    for how in ("--dry-run", "--detach"):
        said = refused(*command, "--encoding", name.format(mine), how)
        assert f"encoding file {mine} is not in the cluster's shared_folder {tmp_path / 'shared'}" in said
    assert not list(tmp_path.rglob("plan.json"))
    seen = mine.rename(tmp_path / "shared/mine.py")
    assert "10 runs in" in preview(*command[1:], "--encoding", name.format(seen))


def test_without_slurm(tmp_path, monkeypatch):
    """A dry run still shows the script; the other commands fail on one line."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    cluster = write_cluster(tmp_path)
    shown = preview("quick", "--on", cluster)
    assert "#SBATCH --partition=main" in shown and "no SLURM here" in shown
    assert not (tmp_path / "runs").exists()
    assert "sbatch was not found" in refused("run", "quick", "--on", cluster)
    assert "no job of suite quick under" in run_command("cancel", "quick")[1]
    assert "these runs have no logs" in run_command("logs", "quick")[1]


def planned(cluster, out: Path):
    """The plan of two jobs on a cluster."""
    return plan_submissions(plan_runs(load_suite("quick"), ["nope", "rope"], ["parity"]), out, cluster, 0)[0][0]


def options_in(script: str) -> dict[str, str]:
    return dict(re.findall(r"^#SBATCH --([a-z-]+)=?(.*)$", script, re.MULTILINE))


def test_a_cluster_file_as_options_of_sbatch(tmp_path):
    sbatch = {"--exclude": "n7", "nice": 5, "exclusive": True, "oversubscribe": False, "gres": "lscratch:9"}
    more = {"partition": ["a", "b"], "gpus_per_job": "h100:2"}
    sizes = {"cpus_per_job": 6, "memory_gb": 1.5, "jobs_at_once": 1, "runs_per_job": 1, "mps": True}
    cluster = load_cluster(str(write_cluster(tmp_path, sbatch=sbatch, **sizes, **more)))
    assert (cluster.gpus, cluster.at_once, cluster.device) == (2, 2, "cuda")
    script = job_script(planned(cluster, tmp_path), tmp_path)
    found = options_in(script)
    assert found.pop("job-name").startswith("lprime-quick-")
    assert found == {
        **{"partition": "a,b", "time": "60", "mem": "1536M", "nodes": "1", "ntasks-per-node": "1", "cpus-per-task": "6"},
        **{"gpus-per-node": "h100:2", "array": "0-1%1", "signal": "USR2@90", "requeue": ""},
        **{"exclude": "n7", "nice": "5", "exclusive": "", "gres": "lscratch:9"},
    }
    assert "srun --unbuffered --cpus-per-task=6 " in script and "nvidia-cuda-mps-control -d" in script
    tiny = load_cluster(str(write_cluster(tmp_path, memory_gb=0.0003)))
    assert options_in(job_script(planned(tiny, tmp_path), tmp_path))["mem"] == "1M", "0 would mean all of a node's"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time_minutes: 2:00:00", "time_minutes: Input should be a valid integer, got '2:00:00'"),
        ("time_minutes: 1_000", "time_minutes: Input should be a valid integer, got '1_000'"),
        ('{time_minutes: 60, sbatch: {comment: "a\\nb"}}', "sbatch.comment: expected one line"),
        ('{time_minutes: 60, sbatch: {"a b": 1}}', "sbatch.a b"),
    ],
)
def test_bad_values_are_shown_as_they_are_written(tmp_path, text, message):
    (tmp_path / "cluster.yaml").write_text(f"partition: p\n{text}" if text[0] != "{" else "{partition: p, " + text[1:])
    with pytest.raises(InputError, match=re.escape(message)):
        load_cluster(str(tmp_path / "cluster.yaml"))


def test_numbers_and_times_keep_their_text(tmp_path):
    """YAML 1.1 would read 010 as 8, 16:00 as 960."""
    (tmp_path / "cluster.yaml").write_text(
        "{partition: p, time_minutes: 60, cpus_per_job: 010, sbatch: {begin: 16:00, time-min: 1:00:00}}"
    )
    cluster = load_cluster(str(tmp_path / "cluster.yaml"))
    assert cluster.cpus_per_job == 10
    found = options_in(job_script(planned(cluster, tmp_path), tmp_path))
    assert (found["begin"], found["time-min"]) == ("16:00", "1:00:00")


@pytest.mark.parametrize("name", example_clusters())
def test_the_script_of_every_example_is_a_shell_script(tmp_path, name):
    cluster = load_cluster(name)
    script = job_script(planned(cluster, tmp_path), tmp_path)
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert options_in(script)["partition"] == cluster.partition
    assert all(line in script for line in cluster.setup)


@pytest.mark.parametrize("name", ['a"b', "a'b", "$(touch x)", "`touch x`", "a b", "a\nb", "100%j", "%A_%a", "\\"])
def test_names_of_folders_are_only_names(tmp_path, name):
    """The script runs with stand-ins for srun and python, and must pass the folder on as it is."""
    folder, log, here = tmp_path / name, tmp_path / "log", tmp_path / "here"
    for made in (folder, here):
        made.mkdir()
    (folder / "plan.json").touch()
    write_commands(tmp_path / "bin", {"python3": f'[ "$2" = -c ] || for last; do printf %s "$last" > {log}; done', **PASS_ON})
    plan = planned(load_cluster(str(write_cluster(tmp_path, python="python3"))), tmp_path)
    environment = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "SLURM_JOB_ID": "12"}
    script = job_script(plan, folder)
    done = subprocess.run(["bash"], input=script, env=environment, cwd=here, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert log.read_text() == str(folder)
    assert not list(here.iterdir())
    output = log_options(plan, folder)[0].removeprefix("--output=")
    assert re.sub("%(.)", lambda match: "%" if match[1] == "%" else "7", output) == f"{folder}/7.log", "as sbatch reads it"


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


@pytest.mark.parametrize(("code", "requeued"), [(93, True), (0, False), (99, False)])
def test_a_container_without_slurms_commands_is_requeued_by_its_batch_script(tmp_path, code, requeued):
    """The script as sbatch would run it, with stand-ins for Apptainer, srun and scontrol."""
    python = f"apptainer exec --nv --bind {tmp_path} /image.sif python3"
    cluster = load_cluster(str(write_cluster(tmp_path, python=python, gpus_per_job="h100:1")))
    log = tmp_path / "log"
    write_commands(
        tmp_path / "bin", {name: text.replace("LOG", str(log)).replace("CODE", str(code)) for name, text in FAKES.items()}
    )
    (tmp_path / "plan.json").touch()
    (tmp_path / "job.sh").write_text(job_script(planned(cluster, tmp_path), tmp_path))
    environment = {
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
        "SLURM_JOB_ID": "12",
        "SLURM_ARRAY_JOB_ID": "10",
        "SLURM_ARRAY_TASK_ID": "3",
    }
    done = subprocess.run(["bash", tmp_path / "job.sh"], env=environment, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    lines = log.read_text().splitlines()
    assert f"inside {tmp_path}: python3 -P -c import slurm.job" == lines[0]
    assert "python3 -P -u -m slurm.job" in lines[1]
    assert lines[2:] == (["scontrol requeue 10_3"] if requeued else [])


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


def test_hours_of_a_job_that_waits_after_a_requeue(monkeypatch):
    lines = "7_0|REQUEUED|0:0|3600|n1|cpu=4,gres/gpu=1,node=1\n7_0|PENDING|0:0|0|None assigned|\n"
    monkeypatch.setattr(commands, "run_command", lambda *command: lines)
    job = commands.accounted_jobs(["7"])["7_0"]
    assert (job.state, job.seconds, job.cpus, job.gpus) == ("PENDING", 3600, 4, 1)


def test_names_of_jobs_in_any_encoding():
    assert commands.run_command("printf", r"1|RUNNING|caf\351") == "1|RUNNING|caf\ufffd"


def test_an_unknown_refusal_is_passed_on(tmp_path):
    cluster = load_cluster(str(write_cluster(tmp_path)))
    said = "sbatch: error: The moon is in the wrong house\nsbatch: error: Batch job submission failed: Unspecified error"
    assert str(commands.explain_refusal(said, cluster)) == "sbatch refused the jobs: The moon is in the wrong house"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"partition": ["cpu", "gpu"], "gpus_per_job": "h100:1"}, ""),
        ({"partition": "gpu", "gpus_per_job": 4}, ""),
        (
            {"partition": "gpu", "gpus_per_job": "a100:1"},
            "has the GPUs gpu:h100:4(S:0-1) (sinfo -o %G), gpus_per_job asks for a100:1",
        ),
        ({"partition": "cpu", "gpus_per_job": 1}, "partition cpu has no GPUs (sinfo -o %G), gpus_per_job asks for 1"),
        ({"partition": ["cpu", "gup"]}, "unknown partition 'gup'; did you mean 'gpu'?"),
        ({"partition": "cpu", "time_minutes": 2000}, "partition cpu allows 1440 minutes a job, time_minutes asks for 2000"),
        ({"partition": "cpu", "cpus_per_job": 65}, "the largest node of partition cpu has 64 CPUs, cpus_per_job asks for 65"),
    ],
)
def test_a_cluster_file_is_checked_against_the_site(tmp_path, monkeypatch, asked, message):
    """``sinfo`` as a site with two partitions answers it; one is hidden, and shown only with ``-a``."""
    monkeypatch.setattr(commands.shutil, "which", lambda name: name)
    shown, hidden = "cpu|(null)|1-00:00:00|64\n", "gpu|gpu:h100:4(S:0-1)|2-00:00:00|32+\n"
    monkeypatch.setattr(commands, "run_command", lambda *command: shown + hidden * ("-a" in command))
    cluster = load_cluster(str(write_cluster(tmp_path, **asked)))
    if not message:
        commands.check_cluster(cluster)
        return
    with pytest.raises(InputError, match=re.escape(message)):
        commands.check_cluster(cluster)
