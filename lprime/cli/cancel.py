"""``lprime cancel``: cancel a suite's cluster jobs."""

from pathlib import Path

from .options import Out, Suite, command_line, runs_folder

END_WITHIN_S = 60.0
"""Time that the jobs are given to save their runs and leave the queue."""


def cancel(suite: Suite, out: Out = Path("runs")) -> None:
    """Cancel a suite's cluster jobs. Their runs are saved: lprime run resumes them."""
    import time

    from bench.suites.suite import load_suite
    from slurm import commands
    from slurm.status import Queue
    from tasks import plural

    loaded, out = load_suite(suite), runs_folder(out)
    queue = Queue.read(out, loaded)
    submissions = {s.plan.name: s for s in queue.submissions}
    ids = [id for id, (name, _) in queue.live.items() if name in submissions]
    if not ids:
        print(f"no job of suite {loaded.name} under {out} is in the queue")
        return
    commands.cancel_jobs(sorted({id.split("_")[0] for id in ids}))
    for name in {queue.live[id][0] for id in ids}:
        submissions[name].mark_cancelled()
    deadline = time.monotonic() + END_WITHIN_S  # until then, lprime run would count their runs as running
    while time.monotonic() < deadline and not Queue.read(out, loaded, need=False).live.keys().isdisjoint(ids):
        time.sleep(1)
    print(f"{plural(len(ids), 'job')} cancelled; to resume their runs: {command_line('run', suite)} --on …")
