"""Fixtures of the running test cluster, empty before and after each test marked ``slurm``. Without a cluster they fail."""

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
from grids import slurm, wait_until
from support import ROOT

SCRIPT = ROOT / "slurm/testcluster/testcluster.sh"
DEFAULT = Path("/tmp/lprime-testcluster")
NODES = ("n1", "n2")


class Queued(NamedTuple):
    """A line of squeue."""

    job: str
    partition: str
    state: str
    node: str
    """Empty while it waits."""


class Accounted(NamedTuple):
    """A line of sacct: one start of a job or array member."""

    job: str
    state: str
    """One word: ``CANCELLED by 0`` is ``CANCELLED``."""
    exit_code: str
    node: str
    start: str


@dataclass(frozen=True)
class RunningCluster:
    """Operations on it. SIGKILL follows SIGTERM after 5 s, grace lasts 10 s, a dead node is noticed after 10 s."""

    folder: Path

    def squeue(self) -> list[Queued]:
        lines = slurm("squeue", "-h", "-r", "-o", "%i|%P|%T|%N").splitlines()
        return [Queued(*line.split("|")) for line in lines]

    def sacct(self, job: str) -> list[Accounted]:
        """All starts of a job, in order, without its steps."""
        lines = slurm("sacct", "-n", "-P", "-X", "-D", "-j", job, "-o", "JobID,State,ExitCode,NodeList,Start").splitlines()
        rows = [line.split("|") for line in lines]
        return sorted((Accounted(id, state.split()[0], *rest) for id, state, *rest in rows), key=lambda row: row.start)

    def submit(self, folder: Path, script: str, *options: str) -> str:
        """Submit a batch job of these lines of bash, with its log in the folder. Returns its id."""
        done = subprocess.run(
            ["sbatch", "--parsable", f"--chdir={folder}", *options],
            input=f"#!/bin/bash\n{script}\n",
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def high_priority_job(self, seconds: float) -> str:
        """Submit a job that needs both nodes and preempts jobs on partition ``low``. Returns its id."""
        both = ("--partition=high", f"--nodes={len(NODES)}", "--exclusive", "--output=/dev/null")
        return self.submit(self.folder, f"sleep {seconds}", *both)

    def running(self, job: str) -> str:
        """Wait until a job runs. Returns its node."""
        return wait_until(f"job {job} to run", lambda: next((q.node for q in self.squeue() if q[::2] == (job, "RUNNING")), ""))

    def ended(self, job: str) -> list[Accounted]:
        """Wait until a job has left the queue and the accounting is complete. Returns its starts."""
        wait_until(f"job {job} to end", lambda: all(q.job.split("_")[0] != job for q in self.squeue()))

        def accounted() -> list[Accounted]:  # the accounting lags behind, by starts and by array members
            restarts = re.findall(r"\bRestarts=(\d+)", slurm("scontrol", "show", "job", "-o", job))
            rows = self.sacct(job)
            settled = all(row.state not in ("PENDING", "RUNNING") for row in rows)
            return rows if settled and len(rows) == sum(int(count) + 1 for count in restarts) else []

        return wait_until(f"accounting of job {job}", accounted)

    def script(self, *arguments: str) -> str:
        done = subprocess.run([SCRIPT, *arguments, self.folder], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def kill_node(self, node: str) -> None:
        """SIGKILL slurmd and all processes of its jobs at once."""
        self.script("kill-node", node)

    def start_node(self, node: str) -> None:
        self.script("start-node", node)

    def nodes(self) -> dict[str, str]:
        return dict(line.split("|") for line in slurm("sinfo", "-h", "-N", "-p", "main", "-o", "%N|%T").splitlines())

    def drain(self) -> None:
        """Empty the queue and bring both nodes back to idle, whatever an earlier test has left."""
        slurm("scancel", f"--user={os.getuid()}")
        self.script("start")  # nodes that were killed
        for node, state in self.nodes().items():
            if state.startswith(("down", "drain")):
                with contextlib.suppress(subprocess.CalledProcessError):  # it came back by itself in between
                    slurm("scontrol", "update", f"nodename={node}", "state=resume")
        wait_until("an empty queue and idle nodes", lambda: not self.squeue() and self.nodes() == dict.fromkeys(NODES, "idle"))


@pytest.fixture(scope="session")
def running_cluster() -> Iterator[RunningCluster]:
    """The cluster of SLURM_CONF or of the script's default folder; with TESTCLUSTERS set, one for each of pytest's workers."""
    if each := os.environ.get("TESTCLUSTERS"):
        folder = Path(f"{each}-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}")
        done = subprocess.run([SCRIPT, "start", folder], capture_output=True, text=True)
        if done.returncode:
            pytest.fail(f"the test cluster does not start: {done.stderr}", pytrace=False)
        os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
    folder = Path(os.environ.get("SLURM_CONF", DEFAULT / "slurm.conf")).parent
    if not (folder / ".testcluster").exists():  # never a site's own: all jobs are cancelled
        pytest.fail(f"no test cluster in {folder}: `make test-slurm`, or `{SCRIPT.relative_to(ROOT)} start`", pytrace=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
        if subprocess.run(["scontrol", "ping"], capture_output=True).returncode:
            pytest.fail(f"the test cluster in {folder} does not answer: `{SCRIPT.relative_to(ROOT)} start`", pytrace=False)
        yield RunningCluster(folder)


@pytest.fixture
def cluster(running_cluster: RunningCluster, monkeypatch) -> Iterator[RunningCluster]:
    """The running cluster, empty before and after the test. Commands in this process ask it often."""
    monkeypatch.setattr("slurm.executor.ASK_SLURM_EVERY_S", 1.0)
    running_cluster.drain()
    yield running_cluster
    running_cluster.drain()


# A skipped test of the cluster counts as failed.
def fail_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"a test of the cluster is never skipped: {report.longrepr}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport():
    fail_skipped((yield).get_result())


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report():
    fail_skipped((yield).get_result())
