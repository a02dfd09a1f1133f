"""The test cluster itself: it behaves like a site's SLURM, and its script does what its README says."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import NODES, SCRIPT
from grids import slurm, wait_until

pytestmark = pytest.mark.slurm
RESTART = 'restart=${SLURM_RESTART_COUNT:-0}; echo "$restart $SLURMD_NODENAME" >> starts'


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def run_script(*arguments: object, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run([SCRIPT, *map(str, arguments)], capture_output=True, text=True, env=os.environ | environment)


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder for another cluster; its path is short because sockets need that."""
    folder = Path(tempfile.mkdtemp(prefix="lprime-"))
    yield folder
    run_script("stop", folder)
    shutil.rmtree(folder, ignore_errors=True)


def alive(pid: int) -> bool:
    """False for zombies."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def processes_of(folder: Path) -> set[int]:
    """Processes whose environment or command line contains a cluster's folder."""
    pids = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
            if os.fsencode(folder) in words and alive(int(process.name)):
                pids.add(int(process.name))
    return pids


def test_jobs_run_on_two_nodes_and_are_accounted_for(cluster, tmp_path):
    lines = slurm("scontrol", "show", "nodes", "-o").splitlines()
    nodes = [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in lines]
    assert [(node["NodeName"], node["State"], node["CPUTot"]) for node in nodes] == [(name, "IDLE", "2") for name in NODES]
    job = cluster.submit(tmp_path, 'echo "$SLURMD_NODENAME" > node; sleep 2; exit 3', "--account=lab")
    cluster.running(job)
    (high,) = cluster.ended(cluster.high_priority_job(0))
    (row,) = cluster.ended(job)
    assert (row.state, row.exit_code, high.state) == ("FAILED", "3:0", "COMPLETED"), "a job on main is not preempted"
    assert row.node == read(tmp_path / "node").strip()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--partition=nowhere"], "invalid partition specified: nowhere"),
        (["--account=nobody"], "Invalid account"),
        (["--array=0-1001"], "Invalid job array specification"),
        (["--partition=short", "--time=3"], "Requested time limit is invalid"),
        (["--gpus-per-node=2"], "Requested node configuration is not available"),
    ],
)
def test_what_sites_refuse_is_refused(cluster, options, said):
    done = subprocess.run(["sbatch", *options, "--wrap=true"], capture_output=True, text=True)
    assert done.returncode == 1
    assert said in done.stderr


def test_the_job_of_a_killed_node_goes_on_elsewhere(cluster, tmp_path):
    """Its processes are gone at once: tasks, their children, and those that had left their session and their parents."""
    script = f"""{RESTART}; [ $restart = 1 ] && exit
        (setsid sleep 300 & echo $! >> pids)
        srun bash -c '{{ sleep 300 & echo $! $$; }} >> pids; wait' & echo $$ >> pids; wait"""
    job = cluster.submit(tmp_path, script, "--requeue")
    wait_until("its processes", lambda: len(read(tmp_path / "pids").split()) == 4)
    node = cluster.running(job)
    other = next(name for name in NODES if name != node)
    pids = [int(pid) for pid in read(tmp_path / "pids").split()]
    assert all(map(alive, pids)), "there is something to kill"
    cluster.kill_node(node)
    assert not any(map(alive, pids))
    first, last = cluster.ended(job)
    assert (first.state, first.node, last.state, last.node) == ("NODE_FAIL", node, "COMPLETED", other)
    assert read(tmp_path / "starts").splitlines() == [f"0 {node}", f"1 {other}"]
    assert cluster.nodes()[node].startswith("down")
    assert run_script("status", cluster.folder).returncode == 1
    assert "not running" in run_script("kill-node", node, cluster.folder).stderr
    cluster.start_node(node)
    wait_until("it to come back by itself", lambda: cluster.nodes()[node] == "idle")
    assert "already running" in run_script("start-node", node, cluster.folder).stderr


def test_a_second_start_leaves_a_cluster_and_its_jobs_alone(cluster, tmp_path):
    job = cluster.submit(tmp_path, "sleep 300")
    cluster.running(job)
    assert "already running" in (said := cluster.script("start"))
    assert said.splitlines()[-1] == f"export SLURM_CONF={cluster.folder}/slurm.conf"
    assert [queued.job for queued in cluster.squeue()] == [job]


def test_leftovers_of_a_killed_cluster_are_cleared_away(cluster, elsewhere):
    """Another cluster is not affected."""
    assert (done := run_script("start", elsewhere)).returncode == 0, done.stderr
    for daemon in ("slurmctld", "mariadbd"):
        os.kill(int(read(elsewhere / f"run/{daemon}.pid")), signal.SIGKILL)
    left = processes_of(elsewhere)
    assert len(left) >= 4, "munged, slurmdbd and two slurmd"
    assert run_script("status", elsewhere).returncode == 1
    assert (done := run_script("start", elsewhere)).returncode == 0, done.stderr
    assert "clearing away" in done.stdout
    assert not any(map(alive, left))
    job = subprocess.run(
        ["sbatch", "--output=/dev/null", "--wrap=setsid sleep 300 & srun sleep 300"],
        env=os.environ | {"SLURM_CONF": f"{elsewhere}/slurm.conf"},
        capture_output=True,
    )
    assert job.returncode == 0
    wait_until(
        "tasks of the job", lambda: len([p for p in processes_of(elsewhere) if "sleep" in read(Path(f"/proc/{p}/comm"))]) == 2
    )
    assert run_script("stop", elsewhere).returncode == 0
    assert not processes_of(elsewhere)
    assert not elsewhere.exists()
    assert (done := run_script("stop", elsewhere)).returncode == 0 and "nothing to stop" in done.stdout
    assert run_script("status", cluster.folder).returncode == 0


def test_other_folders_are_never_deleted(running_cluster, elsewhere):
    (elsewhere / "thesis.tex").write_text("years of work")
    for command in ("start", "stop"):
        done = run_script(command, elsewhere)
        assert done.returncode == 2
        assert str(elsewhere) in done.stderr and len(done.stderr.splitlines()) == 1
    assert [path.name for path in elsewhere.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["strat"], "no command 'strat'"),
        ([], "no command ''"),
        (["kill-node", "n3"], "no node 'n3'; expected one of: n1 n2"),
        (["start-node"], "no node ''; expected one of: n1 n2"),
        (["stop", "one", "two"], "one DIR expected, got: one two"),
        (["start", "/tmp/a folder"], "'/tmp/a folder'"),
        (["status", "/tmp/" + "long" * 20], "at most 60"),
    ],
)
def test_bad_input(running_cluster, arguments, said):
    done = run_script(*arguments)
    assert done.returncode == 2
    assert said in done.stderr.splitlines()[-1]
