"""Runs into SLURM's queue: every one exactly once, whatever happened to the launcher before.

In this order, under a lock that sbatch shares: a submission's plan is written; sbatch is called under the plan's name; its id
is written beside the plan. Whoever finds a plan without an id asks SLURM for jobs of that name: there are some, and they are
taken over, or there are none, and the plan is thrown away.
"""

import getpass
import json
import os
import platform
import shutil
import subprocess
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bench import encodings, plugins
from bench.files import folder_atomic
from bench.runs import Run, now
from tasks import InputError

from . import site
from .cluster import Cluster
from .estimate import Estimate
from .records import PLAN, Plan, Source, Submission, fingerprint_of_place, home, prefix, submissions, submitting
from .shares import arrays, cut
from .states import Queue
from .submit import adopt


@dataclass
class Launched:
    """What became of the runs that were asked for."""

    new: list[Submission]
    already: int
    """Runs that wait or run in jobs of ours already."""
    held: list[Run]
    """Runs that the site's limits keep out for now."""

    @property
    def jobs(self) -> int:
        return sum(len(s.plan.shares) for s in self.new)


def launch(runs: Sequence[Run], out: Path, cluster: Cluster) -> Launched:
    """Submit the runs that no job of ours has yet.

    Raises:
        InputError: SLURM does not answer, refuses the jobs, or has jobs of ours whose records are gone.
    """
    suite = runs[0].suite
    with submitting(home(out, suite.name)) as lock:
        repair(out, suite.name)
        queue = Queue.read(out, suite.name)
        refuse_orphans(out, queue)
        taken = queue.taken()
        todo = [run for run in runs if (run.task, run.encoding, run.seed) not in taken]
        launched = Launched([], len(runs) - len(todo), [])
        if not todo:
            return launched
        largest, most = site.limits(cluster)
        room = most - queue.all_mine if most is not None else None
        if room is not None and room < 1:
            launched.held = todo
            return launched
        for plan in plans(todo, out, cluster, largest, room):
            launched.new.append(submit(plan, out, lock))
        return launched


def plans(runs: Sequence[Run], out: Path, cluster: Cluster, largest: int, room: int | None) -> list[Plan]:
    """One plan for each array of jobs. Nothing is written."""
    suite = runs[0].suite
    estimate = Estimate(suite, out, cluster.device)
    known = {name: source_of(name) for name in dict.fromkeys(run.encoding for run in runs)}
    made: list[Plan] = []
    for shares in arrays(cut(runs, cluster, estimate.seconds, room), largest):
        mine = [runs[place] for share in shares for place in share]
        places = iter(range(len(mine)))
        made.append(
            Plan(
                token=fingerprint_of_place(out) + uuid.uuid4().hex[:8],
                created=f"{now()} by {getpass.getuser()} on {platform.node()}, array {len(made)}",
                out=str(out),
                suite=suite,
                cluster=cluster,
                sources={run.encoding: known[run.encoding] for run in mine},
                runs=[(run.task, run.encoding, run.seed) for run in mine],
                failed_before=[failure.finished if (failure := run.failure(out)) else "" for run in mine],
                shares=[[next(places) for _ in share] for share in shares],
            )
        )
    return made


def source_of(encoding: str) -> Source:
    """Where an encoding is found and what its source is now."""
    found = encodings.get(encoding)
    where = [os.path.abspath(ref) if ".py" in ref and not os.path.isabs(ref) else ref for ref in plugins.references(found)]
    return Source(plugins=where, sha256=encodings.source_hash(found))


def submit(plan: Plan, out: Path, lock: IO[bytes]) -> Submission:
    """Write the plan, hand it to sbatch.

    Raises:
        InputError: sbatch refused; nothing is left of it.
    """
    folder = home(out, plan.suite.name) / plan.token
    with folder_atomic(folder) as new:
        (new / PLAN).write_text(plan.model_dump_json() + "\n")
    # In a session of its own: Ctrl-C here must not cut it off half-way.
    command = [sys.executable, "-m", "slurm.submit", str(folder)]
    done = subprocess.run(command, stdin=lock, capture_output=True, text=True, start_new_session=True)
    try:
        answer = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        raise InputError(f"jobs were not submitted: {(done.stderr.strip().splitlines() or ['no word'])[-1]}") from None
    if "error" in answer:
        shutil.rmtree(folder)
        raise InputError(answer["error"])
    return Submission(folder)


def repair(out: Path, suite: str) -> None:
    """Finish what a launcher that died had begun."""
    for submission in submissions(out, suite):
        if submission.job is None:
            if ids := site.ids_of(submission.plan.name):
                adopt(submission, ids[-1])
            else:
                shutil.rmtree(submission.folder)


def refuse_orphans(out: Path, queue: Queue) -> None:
    """Jobs of ours without records may be at any run: nothing can be submitted beside them without doing work twice."""
    known = {s.plan.name for s in queue.submissions}
    ours = f"{prefix(queue.suite)}{fingerprint_of_place(out)}"
    lost = sorted({id.split("_")[0] for id, (name, _) in queue.live.items() if name.startswith(ours) and name not in known})
    if lost:
        raise InputError(
            f"jobs {', '.join(lost)} of suite {queue.suite} are in the queue, but their records under "
            f"{home(out, queue.suite)} are gone; cancel them first: scancel {' '.join(lost)}"
        )
