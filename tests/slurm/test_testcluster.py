"""The test cluster itself: it behaves like a site's SLURM, and its script does what its README says."""

import subprocess
from pathlib import Path

import pytest
from conftest import NODES, SCRIPT
from grids import slurm, wait_until

pytestmark = pytest.mark.slurm
RESTART = 'restart=${SLURM_RESTART_COUNT:-0}; echo "$restart $SLURMD_NODENAME" >> starts'


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def run_script(*arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run([SCRIPT, *map(str, arguments)], capture_output=True, text=True)


def alive(pid: int) -> bool:
    """False for zombies."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


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
