"""``lprime cancel``: cancel a suite's cluster jobs."""

from pathlib import Path

from .options import Out, Suite, runs_folder

END_WITHIN_S = 60.0
"""Time that the jobs are given to save their runs and leave the queue."""


def cancel(suite: Suite, out: Out = Path("runs")) -> None:
    """Cancel a suite's cluster jobs. Their runs are saved: lprime run resumes them."""
    import time

    from bench.suites.suite import load_suite, suite_command
    from slurm import commands
    from slurm.status import Queue
    from tasks import InputError, plural

    loaded, folder = load_suite(suite), runs_folder(out)
    queue = Queue.read(folder, loaded, need=False)
    if queue.no_answer:
        raise InputError(queue.no_answer)
    if not queue.live:
        print(f"no job of suite {suite} under {folder} is in the queue")
        return
    commands.cancel_jobs(sorted({id.split("_")[0] for id in queue.live}))
    deadline = time.monotonic() + END_WITHIN_S  # until then, lprime run would count their runs as running
    while time.monotonic() < deadline and queue.live.keys() & Queue.read(folder, loaded, need=False).live.keys():
        time.sleep(1)
    command = suite_command("run", suite, out=out)
    print(f"{plural(len(queue.live), 'job')} cancelled; to resume their runs: {command} --on …")
