"""Runs into SLURM's queue: every one exactly once, whatever happened to the launcher before.

In this order, under a lock that sbatch shares: a submission's plan is written; sbatch is called under the plan's name; its id
is written beside the plan. Whoever finds a plan without an id asks SLURM for jobs of that name: there are some, and they are
taken over, or there are none, and the plan is thrown away.
"""

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
from bench.references import is_file, parts
from bench.runs import Run, now
from tasks import InputError

from . import site
from .cluster import Cluster
from .estimate import Estimate
from .records import PLAN, Plan, Source, Submission, fingerprint_of_place, home, submissions, submitting
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
    """Runs that are not in the queue for now."""
    why: str = ""
    """What keeps them out."""

    @property
    def jobs(self) -> int:
        return sum(len(s.plan.shares) for s in self.new)


def launch(runs: Sequence[Run], out: Path, cluster: Cluster) -> Launched:
    """Submit the runs that no job of ours has yet, as far as the site lets us.

    Raises:
        InputError: SLURM does not answer, refuses all of the jobs, or has jobs of ours whose records are gone.
    """
    suite = runs[0].suite
    with submitting(home(out, suite.name)) as lock:
        repair(out, suite.name)
        queue = Queue.read(out, suite.name)
        refuse_orphans(out, queue)
        taken = queue.taken()
        todo = [run for run in runs if run.key not in taken]
        made, held = plans(todo, out, cluster, queue.all_mine) if todo else ([], [])
        launched = Launched(
            [], len(runs) - len(todo), held, "the site lets no more jobs of yours into the queue" if held else ""
        )
        for place, plan in enumerate(made):
            try:
                launched.new.append(submit(plan, out, lock))
            except InputError as refused:
                if not launched.new:
                    raise
                launched.held = [run for other in made[place:] for run in other.all_runs] + held
                launched.why = str(refused)
                break
        return launched


def plans(runs: Sequence[Run], out: Path, cluster: Cluster, in_queue: int) -> tuple[list[Plan], list[Run]]:
    """One plan for each array of jobs, and the runs for whose jobs there is no room now. Nothing is written.

    Arguments:
        in_queue: jobs of ours there.
    """
    suite = runs[0].suite
    largest, most = site.limits(cluster)
    estimate = Estimate(suite, out, cluster.device)
    all_shares = cut(runs, cluster, estimate.seconds, most)
    room = len(all_shares) if most is None else max(0, most - in_queue)
    held = [runs[place] for share in all_shares[room:] for place in share]
    known = {name: source_of(name) for name in dict.fromkeys(run.encoding for run in runs)}
    made: list[Plan] = []
    for shares in arrays(all_shares[:room], largest):
        mine = [runs[place] for share in shares for place in share]
        places = iter(range(len(mine)))
        made.append(
            Plan(
                token=fingerprint_of_place(out) + uuid.uuid4().hex[:8],
                created=f"{now()} on {platform.node()}, array {len(made):04}",
                user=site.user(),
                out=str(out),
                suite=suite,
                cluster=cluster,
                sources={run.encoding: known[run.encoding] for run in mine},
                runs=[run.key for run in mine],
                failed_before=[failure.finished if (failure := run.failure(out)) else "" for run in mine],
                shares=[[next(places) for _ in share] for share in shares],
            )
        )
    return made, held


def check_sources(runs: Sequence[Run], cluster: Cluster) -> None:
    """Look where the runs' encodings are, before SLURM is asked or anything is written.

    Raises:
        InputError: in a file that compute nodes would not see.
    """
    for name in dict.fromkeys(run.encoding for run in runs):
        for reference in filter(is_file, source_of(name).plugins):
            cluster.seen(Path(parts(reference)[0]), "encoding file")


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
    submission = Submission(folder)
    # In a session of its own: Ctrl-C here must not cut it off half-way. -P: what lies around here is no module of ours.
    command = [sys.executable, "-P", "-m", "slurm.submit", str(folder)]
    environment = {key: value for key, value in os.environ.items() if not leaks(key, plan.cluster)}
    done = subprocess.run(command, stdin=lock, capture_output=True, text=True, start_new_session=True, env=environment)
    try:
        error = json.loads(done.stdout.splitlines()[-1]).get("error")
    except (IndexError, ValueError):
        error = f"jobs were not submitted: {(done.stderr.strip().splitlines() or ['no word'])[-1]}"
    if error and not recovered(submission):
        raise InputError(error)
    return submission


def leaks(variable: str, cluster: Cluster) -> bool:
    """Would a variable of ours change what the cluster file says?

    Inside of a job SLURM's own do, and sbatch's rank above a script's options. Those stay that say what the file leaves open.
    """
    if variable.startswith("SLURM_"):
        return variable != "SLURM_CONF"
    given = {f"SBATCH_{key.upper()}": getattr(cluster, key) for key in ("account", "qos", "constraint")}
    return variable.startswith("SBATCH_") and given.get(variable, variable) is not None


def recovered(submission: Submission) -> bool:
    """Does SLURM have a submission that seemed to fail, or whose launcher died? It is taken over, or nothing is left of it.

    Raises:
        InputError: SLURM does not answer; the submission stays for whoever asks next.
    """
    if ids := site.ids_of(submission.plan.name, submission.plan.user):
        adopt(submission, ids[-1])
        return True
    shutil.rmtree(submission.folder)
    return False


def repair(out: Path, suite: str) -> None:
    """Finish what a launcher that died had begun."""
    for submission in submissions(out, suite):
        if submission.job is None:
            recovered(submission)


def refuse_orphans(out: Path, queue: Queue) -> None:
    """Jobs of ours without records may be at any run: nothing can be submitted beside them without doing work twice."""
    known = {s.plan.name for s in queue.submissions}
    lost = sorted({id.split("_")[0] for id, (name, _) in queue.live.items() if name not in known})
    if lost:
        raise InputError(
            f"jobs {', '.join(lost)} of suite {queue.suite} are in the queue, but their records under "
            f"{home(out, queue.suite)} are gone; cancel them first: scancel {' '.join(lost)}"
        )
