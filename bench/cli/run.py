"""``lprime run``: the grid of a suite, or a part of it, on this machine or on a cluster."""

import shlex
import signal
from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command()(run)


def run(
    suite: Annotated[str, typer.Argument(metavar="SUITE", help="A suite's name, or the path of its YAML file.")],
    encoding: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only these encodings, by name or file (repeatable).")
    ] = None,
    task: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only these tasks (repeatable).")] = None,
    seed: Annotated[list[int] | None, typer.Option(metavar="N", help="Only these seeds (repeatable).")] = None,
    workers: Annotated[int | None, typer.Option(metavar="N", help="Runs at a time [default: one per core].")] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Where results live [default: runs].")] = None,
    device: Annotated[str | None, typer.Option(metavar="auto|cpu|cuda", help="What to train on [default: auto].")] = None,
    checkpoint_every: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds between checkpoints of a run [default: 10].")
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run failed runs again.")] = False,
    profile: Annotated[bool, typer.Option("--profile", help="Time one run by phase, keep no result.")] = False,
    on: Annotated[str | None, typer.Option(metavar="FILE", help="Run on the SLURM cluster that a YAML file describes.")] = None,
    detach: Annotated[bool, typer.Option("--detach", help="With --on: return once all is in the queue.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --on: show script, jobs and price, submit nothing.")] = False,
) -> int:
    """Train and test a suite's grid. Asking again runs only what is missing; Ctrl-C loses nothing."""
    from bench.progress import display, say
    from bench.runs import FAILURE, check_out, plan
    from bench.suite import load_suite
    from tasks import InputError, unknown

    given = {"--workers": workers, "--device": device, "--checkpoint-every": checkpoint_every, "--profile": profile or None}
    cluster = cluster_of(on, detach, dry_run, [option for option, value in given.items() if value is not None])
    device, every = device or "auto", 10.0 if checkpoint_every is None else checkpoint_every
    if device not in ("auto", "cpu", "cuda"):
        raise unknown("device", device, ("auto", "cpu", "cuda"))
    if workers is not None and workers < 1:
        raise InputError(f"--workers must be 1 or more, got {workers}")
    if not every >= 0:
        raise InputError(f"--checkpoint-every must be 0 seconds or more, got {every}")
    out = cluster.out(out) if cluster else out or Path("runs")
    loaded = load_suite(suite)
    runs = plan(loaded, full_names(encoding or loaded.encodings), task, seed)
    if not cluster:
        from bench.work import pick

        pick(device)  # type: ignore[arg-type]
    if profile:
        return profiled(runs[0], device)
    if not dry_run:
        check_out(out)
    over = {r: result for r in runs if (result := r.result(out))}
    again = in_queue(out, loaded.name) if cluster else set()
    failed = {
        r: failure
        for r in runs
        if r not in over and r.key not in again and (failure := r.failure(out)) and r.state(out) == "failed"
    }
    todo = [r for r in runs if r not in over and (retry_failed or r not in failed)]
    warn_of_changes(over, out)
    old = {} if retry_failed else failed
    if old:
        say(f"{len(old)} failed before and wait for --retry-failed:")
        for r, failure in old.items():
            say(f"  {r}: {failure.error}")
    if not todo:
        say(f"nothing to run: {len(over)} of {len(runs)} runs are done under {out / loaded.name}")
        return 1 if old else 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite kill is a Ctrl-C
    if dry_run:
        from slurm.executor import dry_run as preview

        for line in preview(todo, out, cluster):
            say(line)
        return 0
    say(f"{len(todo)} of {len(runs)} runs to do, results under {out / loaded.name}")
    executor = executor_for(cluster, detach, workers, device, every)
    if detach:
        executor.execute(todo, out, lambda event: None)
        say(f"the jobs go on without us: lprime status {suite} --out {out}")
        return 0
    progress = display(todo)
    tally = progress.tally
    try:
        with progress:
            executor.execute(todo, out, progress.tell)
    except KeyboardInterrupt:
        others = f"the jobs go on: lprime status {suite} --out {out}" if cluster else "the others are saved; ask again to go on"
        say(f"stopped: {tally.over} of {tally.total} runs are over, {others}")
        raise
    if tally.elsewhere:
        say(f"{tally.elsewhere} of {len(todo)} runs are being run by another process")
    if tally.failed:
        say(f"{len(tally.failed)} of {len(todo)} runs failed; --retry-failed runs them again:")
        for event in tally.failed:
            say(f"  {event.run}: {event.text}")
        say(f"  the first one's traceback: {tally.failed[0].run.folder(out) / FAILURE}")
    if tally.lost:
        say(f"{len(tally.lost)} of {len(todo)} runs lost their jobs; asking again goes on with them:")
        for event in tally.lost:
            say(f"  {event.run}: {event.text}")
    say(f"the board: lprime board {suite}{'' if out == Path('runs') else f' --out {out}'}")
    return 1 if tally.failed or tally.lost or old else 0


def cluster_of(on: str | None, detach: bool, dry_run: bool, local: list[str]):
    """The cluster that ``--on`` names, or None for this machine.

    Raises:
        InputError: a bad cluster file, or options that do not go together.
    """
    from tasks import InputError

    if on is None:
        if detach or dry_run:
            raise InputError(f"{'--detach' if detach else '--dry-run'} is for a cluster; expected --on FILE beside it")
        return None
    from slurm.cluster import load_cluster

    if local:
        raise InputError(f"{local[0]} is for this machine; with --on, the cluster file says it")
    return load_cluster(on)


def in_queue(out: Path, suite: str) -> set:
    """Runs that a cluster's jobs have: a failure before that says nothing any more."""
    from slurm.records import home
    from slurm.states import Queue

    return Queue.read(out, suite, need=False).taken() if home(out, suite).exists() else set()


def executor_for(cluster, detach: bool, workers: int | None, device: str, checkpoint_every_s: float):
    """What works through the runs: processes here, or jobs on a cluster."""
    if cluster:
        from slurm.executor import SlurmExecutor

        return SlurmExecutor(cluster, watch=not detach)
    from bench.pool import LocalPool

    pool = LocalPool(threads=1, device=device, checkpoint_every_s=checkpoint_every_s)
    if workers:
        pool.workers = workers
    return pool


def profiled(run, device: str) -> int:
    """Run the first of the selected runs here, on one thread, and tell where its time went."""
    import torch
    from tabulate import tabulate

    from bench import encodings
    from bench.modules import at_work
    from bench.profiling import HEADER, profile, rows
    from bench.progress import say

    torch.set_num_threads(1)
    say(f"profile of {run} on suite {run.suite.name}: no result is kept")
    with at_work(encodings.get(run.encoding)):
        table = rows(*profile(run, device))  # type: ignore[arg-type]
    print(tabulate(table, headers=HEADER, colalign=("left", "right", "right", "right"), disable_numparse=True))
    if device != "cpu" and torch.cuda.is_available():
        say("on a GPU forward and backward may be one recording, counted as backward")
    return 0


def warn_of_changes(over: dict, out: Path) -> None:
    """Name the encodings whose source is no longer the one that finished runs were made with."""
    from bench import encodings
    from bench.progress import say

    for name in dict.fromkeys(run.encoding for run in over):
        now = encodings.source_hash(encodings.get(name))
        stale = [r for r, result in over.items() if r.encoding == name and result.encoding.source_sha256 != now]
        if stale:
            say(f"caution: the source of {name} has changed since {len(stale)} of its runs; delete them to run them again:")
            places = [r.folder(out).parent for r in stale]
            say(f"  rm -r {' '.join(dict.fromkeys(shlex.quote(str(place)) for place in places))}")


def full_names(names: list[str]) -> list[str]:
    """Names as results are filed under them; an unknown one is refused before anything is started.

    Raises:
        InputError: with the nearest match; a plugin that cannot be loaded.
    """
    from bench import encodings

    found = [encodings.get(name) for name in names]
    for cls in found:
        encodings.source_hash(cls)  # as it is now: what changes from here on, workers will notice
    return [cls.info.name for cls in found]
