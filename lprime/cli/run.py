"""``lprime run``: train and test the grid of a suite, or a part of it, on this machine or a cluster."""

import os
import shlex
import signal
import sys
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from .options import Encodings, Json, On, OutOrShared, Quiet, Seeds, Suite, Tasks, Vary, Workers, print_json
from .selection import expand, try_encodings, try_settings


def run(
    context: typer.Context,
    suite: Suite,
    vary: Vary = False,
    encoding: Encodings = None,
    task: Tasks = None,
    seed: Seeds = None,
    extra_seeds: Annotated[
        bool, typer.Option("--extra-seeds", help="Allow seeds that the suite does not have; a board counts them too.")
    ] = False,
    workers: Workers = None,
    out: OutOrShared = None,
    device: Annotated[str | None, typer.Option(metavar="auto|cpu|cuda", help="Device [default: auto].")] = None,
    checkpoint_every: Annotated[
        float | None, typer.Option(metavar="S", min=0, help="Seconds between checkpoints of a run [default: 10].")
    ] = None,
    keep_weights: Annotated[
        bool, typer.Option("--keep-weights", help="Keep the weights of all runs, not only of trainings that others share.")
    ] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run failed runs again.")] = False,
    on: On = None,
    detach: Annotated[bool, typer.Option("--detach", help="With --on: return once all jobs are queued.")] = False,
    track: Annotated[
        str | None,
        typer.Option(metavar="tensorboard|trackio|wandb", help="Also record each finished run with this tracker, offline."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would run, its time, and with --on the script and the cost.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> int:
    """Train and test a suite's grid. Re-running the command resumes; finished runs are skipped."""
    from bench.files import check_writable
    from bench.result import RESULT
    from bench.runs.progress import SilentProgress, progress_display, say
    from bench.runs.run import CHECKPOINT_EVERY_S, plan_runs, refuse_extra_seeds
    from bench.runs.shared_training import steps_to_make
    from bench.runs.tracking import recorder
    from bench.suites.suite import load_suite, load_suites
    from leaderboard.data.collect import run_files
    from tasks import InputError

    from .run_report import Outcome

    from_shell = context.get_parameter_source("workers")
    local = {
        "--workers": workers if not from_shell or from_shell.name == "COMMANDLINE" else None,  # not $LPRIME_WORKERS
        "--device": device,
        "--checkpoint-every": checkpoint_every,
    }
    cluster = load_on(on, detach, [option for option, value in local.items() if value is not None])
    device, every = device or "auto", CHECKPOINT_EVERY_S if checkpoint_every is None else checkpoint_every
    out = cluster.results_folder(out, dry_run) if cluster else out or Path("runs")
    if track and detach:
        raise InputError("--track records runs as they end; expected it without --detach")
    recording = recorder(track, out)
    suites = load_suites(suite, vary)
    names = try_encodings(expand(encoding) if encoding else suites[0].encodings)
    runs = [r for one in suites for r in plan_runs(one, names, task, seed)]
    refuse_extra_seeds(suites[0], seed or (), extra_seeds)
    try_settings(runs)
    if vary:
        runs.sort(key=lambda r: r.seed)  # whole seeds of all conditions at a time
    if not cluster:
        from bench.runs.devices import resolve_device

        device = resolve_device(device).type
    if not dry_run:
        check_writable(out)
    finished = {r: result for r in runs if (result := r.result(out))}
    retried = {s.name: retried_on_cluster(out, s) for s in suites} if cluster else {}
    failed = {
        r: failure
        for r in runs
        if r not in finished
        and r.key not in retried.get(r.suite.name, ())
        and (failure := r.failure(out))
        and r.state(out) == "failed"
    }
    where = out / suites[0].name if len(suites) == 1 else out
    skipped = {} if retry_failed else failed
    todo = [r for r in runs if r not in finished and r not in skipped]
    outcome = Outcome(suite, vary, out, runs, todo, {r: failure.error for r, failure in skipped.items()}, finished)
    with ExitStack() as stack:
        stdout = sys.stdout
        if as_json or quiet:  # what a launcher says on its way
            stack.enter_context(redirect_stdout(sys.stderr if as_json else stack.enter_context(open(os.devnull, "w"))))
        attention = (lambda text: print(text, file=stdout, flush=True)) if quiet and not as_json else say
        warn_of_changes(finished, out, attention)
        if not todo:
            say(f"nothing to run: {len(finished)} of {len(runs)} runs are done under {where}")
        elif dry_run:
            outcome.preview = preview(todo, out, cluster, workers, device)
            warn_of_declarations(names, attention)
        else:
            signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM stops like Ctrl-C
            keep = {r.encoding for r in todo} if keep_weights else None
            executor = executor_for(cluster, detach, workers, device, every, keep)
            if cluster:
                executor.check(todo, out)
            warn_of_declarations(names, attention)
            say(f"{len(todo)} of {len(runs)} runs to do, results under {where}")
            if detach:
                executor.execute(todo, out, lambda event: None)
                outcome.held = executor.held
            else:
                steps = steps_to_make(todo, out)
                progress = SilentProgress(todo, steps) if as_json or quiet else progress_display(todo, steps)
                tally = outcome.tally = progress.tally
                try:
                    with progress:
                        executor.execute(todo, out, recording(progress.on_event))
                except KeyboardInterrupt:
                    go_on = f"the jobs continue: {outcome.command('status')}"
                    others = go_on if cluster else "the others are saved; re-run to resume"
                    attention(f"stopped: {tally.ended} of {tally.total} runs have ended, {others}")
                    raise
        for line in () if as_json else outcome.attention():
            attention(line)
        has_results = outcome.tally and (finished or outcome.tally.ended > len(outcome.failed) + len(outcome.lost))
        if has_results and (not vary or any(run_files(out / load_suite(suite).name, RESULT))):  # conditions have no board
            say(f"the board: {outcome.command('board')}")
    if as_json:
        print_json(outcome.as_dict())
    return outcome.code


def load_on(on: str | None, detach: bool, local: list[str]):
    """The cluster of ``--on``, or None for this machine.

    Arguments:
        local: the given options that only apply to this machine.

    Raises:
        InputError: a bad cluster file, or conflicting options.
    """
    from tasks import InputError

    if on is None:
        if detach:
            raise InputError("--detach needs a cluster; expected --on FILE too")
        return None
    from slurm.cluster import load_cluster

    if local:
        raise InputError(f"{local[0]} applies to this machine only; with --on, the cluster file decides")
    return load_cluster(on)


def retried_on_cluster(out: Path, suite) -> set:
    """Keys of the runs that have not failed since they were submitted to a cluster; failures from before are obsolete."""
    from slurm.records import load_submissions
    from slurm.status import Queue

    latest = Queue(suite, load_submissions(out, suite.name), live={}).latest
    return {key for key, (submission, _, place) in latest.items() if not submission.plan.failed(place)}


def preview(todo: list, out: Path, cluster, workers: int | None, device: str) -> list[str]:
    """What would run, as lines of text: on a cluster the script and the cost, here the time."""
    from bench.runs.dry_run import local_dry_run
    from bench.runs.pool import local_pool
    from bench.runs.run import by_suite

    if cluster:
        from slurm.dry_run import dry_run

        return [line for own in by_suite(todo) for line in dry_run(own, out, cluster)]
    at_once = local_pool(workers, device).workers
    return [line for own in by_suite(todo) for line in local_dry_run(own, out, device, at_once)]


def executor_for(cluster, detach: bool, workers: int | None, device: str, checkpoint_every_s: float, keep: set[str] | None):
    """The executor of a grid: local processes, or jobs on a cluster.

    Arguments:
        keep: encodings whose runs keep their weights; None: those whose training others share.
    """
    if cluster:
        from slurm.executor import SlurmExecutor

        return SlurmExecutor(cluster, watch=not detach, keep_weights=keep is not None)
    from bench.runs.pool import local_pool

    return local_pool(workers, device, checkpoint_every_s=checkpoint_every_s, keep_weights=keep)


def warn_of_changes(finished: dict, out: Path, say) -> None:
    """Warn of encodings whose source has changed since their finished runs."""
    from bench.plugins.registry import get_encoding
    from bench.plugins.source_hash import source_hash

    for name in dict.fromkeys(run.encoding for run in finished):
        now = source_hash(get_encoding(name))
        stale = [r for r, result in finished.items() if r.encoding == name and result.encoding.source_sha256 != now]
        if stale:
            say(f"caution: the source of {name} has changed since {len(stale)} of its runs; delete them to run them again:")
            folders = [r.folder(out).parent for r in stale]
            say(f"  rm -r {' '.join(dict.fromkeys(shlex.quote(str(folder)) for folder in folders))}")


def warn_of_declarations(names: list[str], say) -> None:
    """Warn of plugins whose ``info`` or settings ``lprime check`` refuses: runs record it, and its correction changes the
    source hash."""
    from bench.check.declaration import declaration_faults
    from bench.check.subject import plugin_classes
    from bench.plugins.registry import get_encoding

    for cls in map(get_encoding, names):
        if plugin_classes(cls) and (faults := declaration_faults(cls)):
            say(f"caution: lprime check refuses what {cls.info.name} declares; correct it before the runs: {'; '.join(faults)}")
