"""``lprime verify``: check a submission against the rules."""

from pathlib import Path
from typing import Annotated, Any

import typer

from leaderboard import PUBLISHED

from .options import (
    Board,
    Json,
    Markdown,
    On,
    OutOrShared,
    Quiet,
    Workers,
    check_positive,
    finding_printer,
    print_report,
    refuse_unwritable,
)


def verify(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A submission, as written by lprime submit.")],
    suite: Annotated[
        str | None, typer.Option(metavar="SUITE", help="The suite it must match [default: the shipped one it names].")
    ] = None,
    rerun: Annotated[
        str, typer.Option(metavar="K|all", help="RUNS ITS CODE: train K randomly chosen runs again, or all, in a sandbox.")
    ] = "0",
    fresh_seeds: Annotated[
        bool,
        typer.Option("--fresh-seeds", help="RUNS ITS CODE: test K runs, or one per task, on new test sets."),
    ] = False,
    choice_seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Seed of the choice and of new test sets [default: random].")
    ] = None,
    out: OutOrShared = None,
    on: On = None,
    workers: Workers = None,
    time_limit: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds for a run [default: by their recorded time].")
    ] = None,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Run its code without a sandbox, with your rights (where bubblewrap is missing).")
    ] = False,
    board: Board = PUBLISHED,
    as_json: Json = False,
    quiet: Quiet = False,
    markdown: Markdown = None,
) -> int:
    """Verify a submission, by default without running its code. --board is searched for copied results.

    Recomputed results are written to --out, where lprime publish takes them from; finished runs are not repeated. Exit code 1
    if a check failed.
    """
    import secrets
    import sys

    from bench.suites.suite import load_suite
    from leaderboard.submission.verify import ALL, RerunOptions, verify_submission
    from leaderboard.submission.verify.rerun import CAUTION
    from tasks import InputError

    if time_limit is not None:
        check_positive("--time-limit", time_limit)
    refuse_unwritable(markdown)

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    if rerun != "all" and not (rerun.isascii() and rerun.isdecimal() and len(rerun) < 8):
        raise InputError(f"--rerun must be a number of runs, or all; got {rerun!r:.40}")
    if rerun == "0" and not fresh_seeds:
        given = {"--on": on, "--choice-seed": choice_seed, "--time-limit": time_limit, "--unsafe": unsafe or None}
        if unused := [option for option, value in given.items() if value is not None]:
            raise InputError(f"without --rerun or --fresh-seeds no code runs; expected no {' or '.join(unused)} with it")
    more: dict[str, Any] = {"out": out or Path("runs")}
    if on:
        from slurm.cluster import load_cluster
        from slurm.executor import SlurmExecutor

        cluster = load_cluster(on)
        more["out"] = cluster.results_folder(out)
        more["executor"] = lambda name, code, workers: SlurmExecutor.of_sealed(cluster, name, code)
    expected = load_suite(suite) if suite else None
    seed = secrets.randbelow(2**31) if choice_seed is None else choice_seed
    count = ALL if rerun == "all" else int(rerun)
    options = RerunOptions(count, fresh_seeds, seed, workers, time_limit, say, unsafe, **more)
    if count or fresh_seeds:
        say(f"{CAUTION}\nchoice seed {seed}")

    report = verify_submission(folder, expected, board, options, finding_printer(as_json, quiet))
    return print_report(report, as_json, quiet, markdown)
