"""``lprime verify``: does a submission keep the rules?"""

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command()(verify)


def verify(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A submission, as lprime submit writes it.")],
    suite: Annotated[
        str | None, typer.Option(metavar="SUITE", help="Hold it to this suite or file [default: the shipped one it names].")
    ] = None,
    rerun: Annotated[int, typer.Option(metavar="K", help="RUNS ITS CODE: train K runs, chosen at random, once more.")] = 0,
    fresh_seeds: Annotated[
        bool,
        typer.Option("--fresh-seeds", help="RUNS ITS CODE: test K runs, or one a task, on newly drawn test sets."),
    ] = False,
    choice_seed: Annotated[
        int | None, typer.Option(metavar="N", help="Of the choice and of new test sets [default: another each time].")
    ] = None,
    workers: Annotated[int | None, typer.Option(metavar="N", help="Runs at a time [default: one per core].")] = None,
    time_limit: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds for the runs [default: ten times what they took].")
    ] = None,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="The published board, which nobody may copy.")] = Path(
        "leaderboard"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as a JSON object.")] = False,
    markdown: Annotated[Path | None, typer.Option("--markdown", metavar="FILE", help="Write the report there too.")] = None,
) -> int:
    """Verify a submission as data, running none of it: exit code 0 if all is well, 1 if a check failed."""
    import secrets
    import sys

    from bench.files import write_atomic
    from bench.suite import load_suite
    from leaderboard.verify import Again
    from leaderboard.verify import verify as run_checks
    from leaderboard.verify.again import CAUTION
    from tasks import InputError

    for name, value, least in (("--rerun", rerun, 0), ("--choice-seed", choice_seed, 0), ("--workers", workers, 1)):
        if value is not None and value < least:
            raise InputError(f"{name} must be {least} or more, got {value}")
    if time_limit is not None and not 0 < time_limit < float("inf"):
        raise InputError(f"--time-limit must be more than 0, got {time_limit}")

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    held_to = load_suite(suite) if suite else None
    again = None
    if rerun or fresh_seeds:
        seed = secrets.randbelow(2**31) if choice_seed is None else choice_seed
        again = Again(rerun, fresh_seeds, seed, workers, time_limit, say)
        say(f"{CAUTION}\nchoice seed {seed}")

    def tell(finding) -> None:
        if not as_json:
            print("\n".join(finding.lines()), flush=True)

    report = run_checks(folder, held_to, to, again, tell)
    if markdown is not None:
        write_atomic(markdown, report.markdown())
    print(report.model_dump_json(indent=1) if as_json else f"\n{report.summary()}")
    return 0 if report.passed else 1
