"""``lprime run``: train and test the grid of a suite, or a part of it, on this machine or a cluster."""

import os
import shlex
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from .options import Encodings, Json, On, OutOrShared, Quiet, Rates, Seeds, Suite, Tasks, Workers, print_json, runs_folder
from .selection import expand, try_encodings, try_settings


def run(
    context: typer.Context,
    suite: Suite,
    encoding: Encodings = None,
    task: Tasks = None,
    seed: Seeds = None,
    rate: Rates = None,
    workers: Workers = None,
    out: OutOrShared = None,
    device: Annotated[str | None, typer.Option(metavar="auto|cpu|cuda", help="Device [default: auto].")] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run failed runs again.")] = False,
    on: On = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would run, its time, and with --on the script and the cost.")
    ] = False,
    checkpoint_every: Annotated[float | None, typer.Option(metavar="S", min=0, hidden=True)] = None,
    detach: Annotated[bool, typer.Option("--detach", help="With --on: return once all jobs are queued.", hidden=True)] = False,
    keep_weights: Annotated[bool, typer.Option("--keep-weights", help="Keep the weights of all runs.", hidden=True)] = False,
    sealed: Annotated[
        bool, typer.Option("--sealed", help="Run the submission that --encoding names, in a sandbox.", hidden=True)
    ] = False,
    unsafe: Annotated[bool, typer.Option("--unsafe", help="With --sealed: without a sandbox.", hidden=True)] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> int:
    """Train and test a suite's grid. Re-running the command resumes; finished runs are skipped.

    Also: --keep-weights; --checkpoint-every S; with --on, --detach; for submissions, --sealed.
    """
    from bench.files import check_writable
    from bench.runs.progress import SilentProgress, progress_display, say
    from bench.runs.run import plan_runs, read_results
    from bench.runs.shared_training import steps_to_make
    from bench.suites.suite import load_suite

    from .run_report import Outcome

    given = context.get_parameter_source("workers")  # $LPRIME_WORKERS is only a default
    cluster = load_on(on, detach, {"--workers": workers if given and given.name == "COMMANDLINE" else None, "--device": device})
    out = cluster.results_folder(out, dry_run) if cluster else out or Path("runs")
    runs_folder(out)  # refuses a file
    loaded = load_suite(suite)
    if sealed:
        names, code = sealed_submission(encoding, out, unsafe)
    else:
        names, code = try_encodings(expand(encoding) if encoding else loaded.encodings), None
    runs = plan_runs(loaded, names, task, seed, rate)
    if code:
        from leaderboard.submission.sealed_runs import refuse_other_results

        refuse_other_results(runs, code, out)
    else:
        try_settings(runs)
    if cluster is None:
        from bench.runs.devices import resolve_device

        device = resolve_device(device or "auto").type
    if not dry_run:
        check_writable(out)
    finished, unreadable = read_results(runs, out)
    failed = {
        r: failure
        for r in runs
        if r not in finished and r not in unreadable and (failure := r.failure(out)) and r.state(out) == "failed"
    }
    skipped = {} if retry_failed else failed
    todo = [r for r in runs if r not in finished and r not in skipped and r not in unreadable]
    outcome = Outcome(suite, out, runs, todo, {r: failure.error for r, failure in skipped.items()}, finished, unreadable)
    with ExitStack() as stack:
        stdout = sys.stdout
        if as_json or quiet:  # what a launcher, or a plugin, prints on its way
            stack.enter_context(redirect_stdout(sys.stderr if as_json else stack.enter_context(open(os.devnull, "w"))))

        def attention(text: str) -> None:
            say(text) if not quiet or as_json else print(text, file=stdout, flush=True)

        if not sealed:
            warn_of_changes(finished, out, attention)
        warn_of_seeds(runs, attention)
        if not todo:
            say(f"nothing to run: {len(finished)} of {len(runs)} runs are done under {out / loaded.name}")
        elif dry_run:
            outcome.preview = preview(todo, out, cluster, workers, device or "", code)
            warn_of_declarations(names if not code else (), attention)
        else:
            signal.signal(signal.SIGTERM, stop_like_ctrl_c)
            keep = {r.encoding for r in todo} if keep_weights else None
            executor = executor_for(cluster, detach, workers, device or "", keep, code, checkpoint_every)
            if cluster:
                executor.check(todo, out)
            warn_of_declarations(names if not code else (), attention)
            say(f"{len(todo)} of {len(runs)} runs to do, results under {out / loaded.name}")
            if detach:
                executor.execute(todo, out, lambda event: None)
                outcome.held = executor.held
            else:
                steps = steps_to_make(todo, out)
                progress = SilentProgress(todo, steps) if as_json or quiet else progress_display(todo, steps)
                tally = outcome.tally = progress.tally
                try:
                    with progress:
                        executor.execute(todo, out, progress.on_event)
                except KeyboardInterrupt:
                    go_on = f"the jobs continue: {outcome.command('status')}"
                    others = go_on if cluster else "the others are saved; re-run to resume"
                    attention(f"stopped: {tally.ended} of {tally.total} runs have ended, {others}")
                    raise
        for line in () if as_json else outcome.attention():
            attention(line)
        if outcome.tally and (finished or outcome.tally.ended > len(outcome.failed) + len(outcome.lost)):
            say(f"the board: {outcome.command('board')}")
    if as_json:
        print_json(outcome.as_dict())
    return outcome.code


class Terminated(KeyboardInterrupt):
    """SIGTERM: stops like Ctrl-C, with the exit code of a process that a signal ends."""


def stop_like_ctrl_c(*_: object) -> None:
    raise Terminated


def load_on(on: str | None, detach: bool, local: dict[str, object]):
    """The cluster of ``--on``, or None for this machine.

    Arguments:
        local: options that only apply to this machine, and their values.

    Raises:
        InputError: a bad cluster file, or conflicting options.
    """
    from tasks import InputError

    if on is None:
        if detach:
            raise InputError("--detach needs a cluster; expected --on FILE too")
        return None
    from slurm.cluster import load_cluster

    if given := [option for option, value in local.items() if value is not None]:
        raise InputError(f"{given[0]} applies to this machine only; with --on, the cluster file decides")
    return load_cluster(on)


def sealed_submission(encodings: Sequence[str] | None, out: Path, unsafe: bool):
    """Name of the submitted encoding, as a list, and its code.

    Raises:
        InputError: not one submission, or one that the rules do not allow.
    """
    from leaderboard.submission.folder import is_submission, read_submission
    from leaderboard.submission.sealed_runs import sealed_code
    from tasks import InputError

    if len(encodings or ()) != 1 or not is_submission(encodings[0]):  # type: ignore[index]
        given = ", ".join(encodings or ["none"])
        raise InputError(f"--sealed runs one submission; expected --encoding FOLDER as `lprime submit` writes it, got {given}")
    found = read_submission(Path(encodings[0]))  # type: ignore[index]
    return [found.submission.encoding.name], sealed_code(found, out, unsafe=unsafe)


def preview(todo: list, out: Path, cluster, workers: int | None, device: str, code) -> list[str]:
    """What would run, as lines of text: on a cluster the script and the cost, here the time."""
    if cluster:
        return executor_for(cluster, False, workers, device, None, code, None).dry_run(todo, out)
    from bench.runs.dry_run import local_dry_run
    from bench.runs.pool import local_pool

    return local_dry_run(todo, out, device, local_pool(workers, device).workers)


def executor_for(
    cluster, detach: bool, workers: int | None, device: str, keep: set[str] | None, code, checkpoint_every_s: float | None
):
    """The executor of a grid: local processes, or jobs on a cluster.

    Arguments:
        keep: encodings whose runs keep their weights; None: those whose training others share.
        code: of a submission whose runs are sealed, or None.
    """
    if cluster:
        from slurm.executor import SlurmExecutor

        if code:
            return SlurmExecutor.of_sealed(cluster, code.encoding.name, code)
        return SlurmExecutor(cluster, watch=not detach, keep_weights=keep is not None)
    if code:
        from leaderboard.submission.sealed_runs import local_executor

        return local_executor(code, workers)
    from bench.runs.pool import local_pool

    every = {} if checkpoint_every_s is None else {"checkpoint_every_s": checkpoint_every_s}
    return local_pool(workers, device, keep_weights=keep, **every)


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


def warn_of_seeds(runs: Sequence, say) -> None:
    """Warn of seeds that the suite does not have: a board counts every run, so a typo would change it."""
    suite = runs[0].suite
    if extra := sorted({run.seed for run in runs} - set(suite.seeds)):
        seeds = ", ".join(map(str, suite.seeds))
        say(f"caution: suite {suite.name} has the seeds {seeds}; boards count {', '.join(map(str, extra))} too")


def warn_of_declarations(names: Sequence[str], say) -> None:
    """Warn of plugins whose ``info`` or settings ``lprime check`` refuses: runs record it, and its correction changes the
    source hash."""
    from bench.check.contract import declaration_faults
    from bench.check.subject import plugin_classes
    from bench.plugins.registry import get_encoding

    for cls in map(get_encoding, names):
        if plugin_classes(cls) and (faults := declaration_faults(cls)):
            say(f"caution: lprime check refuses what {cls.info.name} declares; correct it before the runs: {'; '.join(faults)}")
