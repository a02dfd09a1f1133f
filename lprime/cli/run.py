"""``lprime run``: train and test the grid of a suite, or a part of it, on this machine or a cluster; ``lprime status``."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Encodings, Json, On, Out, Seeds, Suite, Tasks, Workers, one, print_json, suite_command, try_encodings

if TYPE_CHECKING:
    from bench.runs.progress import Progress
    from bench.runs.run import Run, Standing
    from bench.sealed.sandbox import SealedCode


def run(
    context: typer.Context,
    suite: Suite,
    encoding: Encodings = None,
    task: Tasks = None,
    seed: Seeds = None,
    rate: Annotated[
        list[float] | None,
        typer.Option(metavar="R", parser=one(float), help="Only these learning rates (repeatable), in suites that sweep it."),
    ] = None,
    workers: Workers = None,
    out: Out = Path("runs"),
    device: Annotated[str | None, typer.Option(metavar="auto|cpu|cuda", help="Device [default: auto].")] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run failed runs again.")] = False,
    on: On = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would run, its time, and with --on the script and the cost.")
    ] = False,
    checkpoint_every: Annotated[float, typer.Option(metavar="S", min=0, hidden=True)] = 10,
    detach: Annotated[bool, typer.Option("--detach", hidden=True)] = False,
    keep_weights: Annotated[bool, typer.Option("--keep-weights", hidden=True)] = False,
    sealed: Annotated[bool, typer.Option("--sealed", hidden=True)] = False,
    as_json: Json = False,
) -> int:
    """Train and test a suite's grid. Re-running the command resumes; finished runs are skipped.

    Also: --keep-weights keeps the weights of all runs; --checkpoint-every S; with --on, --detach returns once all jobs are
    queued; --sealed runs the submission that --encoding names in a sandbox.
    """
    from bench.runs.devices import resolve_device
    from bench.runs.pool import LocalPool, local_pool
    from bench.runs.progress import Progress, say
    from bench.runs.run import FINISHED, check_data, plan_runs
    from bench.sealed.sandbox import sandbox_fault
    from bench.suites.suite import holding, load_suite
    from slurm.cluster import load_cluster
    from slurm.executor import SlurmExecutor
    from tasks import InputError

    given = context.get_parameter_source("workers")  # $LPRIME_WORKERS is only a default
    if on and (device or (workers and given and given.name == "COMMANDLINE")):
        raise InputError("--workers and --device apply to this machine only; with --on, the cluster file decides")
    if detach and not on:
        raise InputError("--detach needs a cluster; expected --on FILE too")
    cluster, code = load_cluster(on) if on else None, None
    suite, task = holding(suite, task or [])
    loaded = load_suite(suite)
    if sealed:
        if device or keep_weights:
            raise InputError("--sealed tests on the CPU and keeps no weights; leave --device and --keep-weights out")
        if not (on or dry_run) and (fault := sandbox_fault()):
            raise InputError(f"--sealed needs a sandbox, but {fault}")
        names, code = sealed_submission(encoding, out)
    else:
        names = try_encodings(encoding or loaded.encodings)
    runs = plan_runs(loaded, names, task, seed, rate)
    device = "" if cluster else resolve_device(device or "auto").type
    if code:
        from leaderboard.submission import refuse_other_results

        refuse_other_results(runs, code, out)
    standings = {run: run.standing(out) for run in runs}
    skipped = (*FINISHED, "unreadable", *["failed"] * (not retry_failed))
    todo = [run for run in runs if standings[run].state not in skipped]
    if not dry_run:
        check_data(todo)
        out.mkdir(parents=True, exist_ok=True)
    executor: LocalPool | SlurmExecutor
    if cluster:
        executor = SlurmExecutor(cluster, not detach, keep_weights, code)
    elif code:
        from bench.sealed.run import SealedRequest

        executor = local_pool(workers, "cpu", request=partial(SealedRequest.of_run, code=code), keep_weights=())
    else:
        keep = {run.encoding for run in todo} if keep_weights else None
        executor = local_pool(workers, device, checkpoint_every_s=checkpoint_every, keep_weights=keep)
    done = {run: standing for run, standing in standings.items() if standing.state in FINISHED}
    warn(loaded.seeds, runs, {} if sealed else done, out)
    tally, preview = Progress([]), list[str]()
    if not todo:
        say(f"nothing to run: {len(done)} of {len(runs)} runs are done under {out / loaded.name}")
    elif dry_run:
        preview = executor.dry_run(todo, out)
    else:
        say(f"{len(todo)} of {len(runs)} runs to do, results under {out / loaded.name}")
        if detach:
            executor.execute(todo, out, lambda event: None)
            say(f"all jobs are queued; follow them with: {suite_command('status', suite, out)}")
        else:
            tally = Progress(todo)
            try:
                with tally.live:
                    executor.execute(todo, out, tally.on_event)
            except (KeyboardInterrupt, SystemExit):
                go_on = f"the jobs continue: {suite_command('status', suite, out)}"
                others = go_on if cluster else "the others are saved; re-run to resume"
                say(f"stopped: {tally.ended} of {tally.total} runs have ended, {others}")
                raise
            standings |= {run: run.standing(out) for run in todo if run not in tally.lost}
    outcome = report(standings, todo, tally, preview)
    if tally.total and outcome["done"]:
        say(f"the board: {suite_command('board', suite, out)}")
    if as_json:
        print_json({"suite": suite, "out": str(out)} | outcome)
    failed = outcome["failed"] and not preview
    return int(bool(failed or outcome["lost"] or outcome["unreadable"] or tally.locked))  # a diverged run is a result


def report(
    standings: "Mapping[Run, Standing]", todo: "Sequence[Run]", tally: "Progress", preview: Sequence[str]
) -> dict[str, Any]:
    """Print what would run, and the runs that need attention; returns the outcome as plain data.

    Arguments:
        standings: all runs; lost ones as they stood before, since their results cannot be read.
        todo: the runs to execute.
        tally: how those ended; of no runs if they were not executed, or not watched.
        preview: lines of a dry run.
    """
    from bench.runs.progress import say, section
    from bench.runs.run import FINISHED

    planned = set(todo)
    left = {run: found for run, found in standings.items() if run not in planned}
    before = {run: found.reason for run, found in left.items() if found.state == "failed"}
    unreadable = {run: found.reason for run, found in left.items() if found.state == "unreadable"}
    diverged = {run: found.steps for run, found in standings.items() if found.state == "diverged"}
    count, at_step = f"of {len(todo)} runs", {run: f"at step {step} of {run.steps}" for run, step in diverged.items()}
    for line in (
        *preview,
        *(f"not used: {reason}" for reason in unreadable.values()),
        *section("failed before; --retry-failed runs them again", before),
        *[f"{tally.locked} {count} are in progress in another process"] * bool(tally.locked),
        *section(f"{count} failed (reports: failure.json in their folders); --retry-failed runs them again", tally.failed),
        *section(f"{count} lost their jobs; re-run to resume them", tally.lost),
        *section(f"of {len(standings)} runs diverged (NaN or infinite loss) and count as zero", at_step),
    ):
        say(line)

    def listed(runs: "Mapping[Run, Any]", key: str) -> list[dict[str, Any]]:
        names = ("task", "encoding", "seed", "learning_rate")
        return [dict(zip(names, run.key, strict=True)) | {key: value} for run, value in runs.items()]

    return {
        "runs": len(standings),
        "done": sum(found.state in FINISHED for found in standings.values()),
        "failed": listed(before | tally.failed, "reason"),
        "lost": listed(tally.lost, "reason"),
        "diverged": listed(diverged, "step"),
        "unreadable": listed(unreadable, "reason"),
        "preview": list(preview),
        "in_another_process": tally.locked,
    }


def sealed_submission(encodings: Sequence[str] | None, out: Path) -> "tuple[list[str], SealedCode]":
    """Name of the submitted encoding, as a list, and its code.

    Raises:
        InputError: not one submission, or one that the rules do not allow.
    """
    from leaderboard.submission import is_submission, read_submission, sealed_code
    from tasks import InputError

    given = list(encodings or ())
    if len(given) != 1 or not is_submission(given[0]):
        expected = "expected --encoding FOLDER as `lprime submit` writes it"
        raise InputError(f"--sealed runs one submission; {expected}, got {', '.join(given) or 'none'}")
    found = read_submission(Path(given[0]))
    return [found.submission.encoding.name], sealed_code(found, out)


def warn(seeds: Sequence[int], runs: "Sequence[Run]", finished: "Mapping[Run, Standing]", out: Path) -> None:
    """Warn of seeds that the suite does not have, and of encodings whose source has changed since their finished runs."""
    from bench.plugins.registry import get_encoding
    from bench.plugins.source_hash import source_hash
    from bench.runs.progress import say

    if extra := sorted({run.seed for run in runs} - set(seeds)):
        say(f"caution: the suite has the seeds {', '.join(map(str, seeds))}; boards count {', '.join(map(str, extra))} too")
    now = {name: source_hash(get_encoding(name)) for name in dict.fromkeys(run.encoding for run in finished)}
    stale: dict[str, list[Path]] = {}
    for run, standing in finished.items():
        if standing.source_sha256 != now[run.encoding]:
            stale.setdefault(run.encoding, []).append(run.folder(out))
    for name, folders in stale.items():
        say(f"caution: the source of {name} has changed since {len(folders)} of its runs; delete them to run them again:")
        whole = {parent for parent in {folder.parent for folder in folders} if {*parent.iterdir()} <= {*folders}}
        shorter = dict.fromkeys(str(folder.parent if folder.parent in whole else folder) for folder in folders)
        say(f"  rm -r {shlex.join(shorter)}")


def status(suite: Suite, out: Out = Path("runs"), as_json: Json = False) -> int:
    """Show the state of each run of a suite.

    States are done, diverged, failed, running, queued, paused, missing and unreadable; the exit code is 1 if a run's files
    cannot be read. Logs of cluster jobs are in OUT/SUITE/.slurm, the report of a failed run is failure.json in its folder.
    """
    from bench.suites.suite import load_suite
    from slurm.status import Queue, empty_folder_hint, status_rows, status_text

    queue = Queue.read(out, load_suite(suite), need=False)
    statuses = queue.all_statuses(out)
    if as_json:
        if nothing := empty_folder_hint(queue.suite.name, out):
            print(f"lprime: {nothing}", file=sys.stderr)
        print_json(status_rows(statuses))
    else:
        print(status_text(queue, statuses, out))
    return int(any(status.state == "unreadable" for status in statuses.values()))
