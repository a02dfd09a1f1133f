"""``lprime reproduce``: run published findings, and compare our numbers with theirs."""

import sys
import time
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leaderboard import PUBLISHED, published_folder

from .options import Json, Out, Workers, print_json

if TYPE_CHECKING:
    from bench.findings.finding import Finding
    from bench.probe.record import ProbeRecord
    from bench.runs.run import Run
    from leaderboard.data.outcomes import Outcome


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME …]", help="Findings to run; none: list all.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Run all findings.")] = False,
    max_minutes: Annotated[
        float | None,
        typer.Option(metavar="N", min=0, help="With --all: the cheapest, up to so many minutes of one core in total."),
    ] = None,
    workers: Workers = None,
    out: Out = Path("runs"),
    as_json: Json = False,
    publish: Annotated[bool, typer.Option("--publish", help="Add the outcomes to the published board, and render it.")] = False,
) -> int:
    """Run findings of the literature and compare our numbers with the published ones.

    Without a name: list the findings with their verdicts. Runs resume; finished ones are skipped. Exit code 1: a finding is not
    reproduced.
    """
    from bench.findings.finding import load_finding, shipped_findings
    from leaderboard.data.outcomes import OUTCOMES, published_outcomes, read_outcomes, write_outcomes
    from leaderboard.render.findings_page import verdict_of
    from tasks import InputError, plural

    if publish and not names and not everything:
        raise InputError("expected names of findings, or --all, with --publish")
    if (everything and names) or (max_minutes is not None and not everything):
        raise InputError("expected names of findings, or --all, with --max-minutes if only some of them should run")
    place = published_outcomes(PUBLISHED)
    if publish and not place.parent.is_dir():
        raise InputError(f"nothing is published under {PUBLISHED}; --publish needs a checkout")
    found = [load_finding(name) for name in names] if names else shipped_findings()
    known = read_outcomes(published_outcomes(published_folder())) | read_outcomes(out / OUTCOMES)
    if not names and not everything:
        show_list(found, known, as_json)
        return 0
    chosen, total = [], 0.0
    for finding in found:
        if max_minutes is None or total + finding.minutes <= max_minutes:
            chosen.append(finding)
            total += finding.minutes
    if not chosen:
        cheapest = f"the cheapest finding, {found[0].name}, takes {found[0].minutes:g}"
        raise InputError(f"--max-minutes {max_minutes:g} is too few: {cheapest}")
    verdicts, rows = [], []
    for finding in chosen:
        measured = read_outcomes(out / OUTCOMES)
        outcome = measured.get(finding.name)
        if not (outcome and is_current(finding, outcome)):
            with redirect_stdout(sys.stderr) if as_json else nullcontext():  # progress
                outcome = measure(finding, out, workers)
            write_outcomes(out / OUTCOMES, measured | {finding.name: outcome})
        if publish:
            write_outcomes(place, read_outcomes(place) | {finding.name: outcome})
        verdicts.append(verdict_of(finding, outcome)[0])
        if as_json:
            rows.append(as_row(finding, outcome))
        else:
            show(finding, outcome)
    if as_json:
        print_json(rows)
    if publish:
        from leaderboard.render.publish import render_published

        count = plural(len(render_published(PUBLISHED)), "file")
        print(f"{count} written under {PUBLISHED}", file=sys.stderr if as_json else sys.stdout)
    return 1 if "not reproduced" in verdicts else 0


def is_current(finding: "Finding", outcome: "Outcome") -> bool:
    """Whether code would give the same numbers again: same rule, same clean checkout, same torch. Runs are read again in any
    case, and resume by themselves."""
    if not finding.code:
        return False
    import torch

    from bench.runs.git_commit import current_commit

    commit = current_commit()
    if commit is None or commit.endswith("-dirty"):
        return False
    return (outcome.rule, outcome.commit, outcome.versions) == (finding.rule, commit, {"torch": torch.__version__})


def measure(finding: "Finding", out: Path, workers: int | None) -> "Outcome":
    """Make the missing runs of a finding, or run its code, and collect the numbers.

    Raises:
        InputError: a run failed.
    """
    import torch

    from bench.result import read_result
    from bench.runs.git_commit import current_commit
    from bench.runs.pool import local_pool
    from bench.runs.progress import progress_display, say
    from bench.runs.run import RESULT, now, plan_runs
    from bench.runs.shared_training import steps_to_make
    from leaderboard.data.outcomes import Outcome
    from tasks import InputError

    start = time.monotonic()
    torch.set_num_threads(1)  # as in the workers
    if finding.code:
        samples, minutes = finding.compute(), (time.monotonic() - start) / 60
    else:
        runs = {key: plan_runs(suite, tasks=finding.tasks(suite)) for key, suite in finding.grids.items()}
        for suite_runs in runs.values():
            if todo := [run for run in suite_runs if not run.result(out)]:
                say(f"{finding.name}: {len(todo)} runs to do, results under {out / todo[0].suite.name}")
                pool = local_pool(workers, "auto", keep_weights={run.encoding for run in todo} if finding.probes else None)
                with (progress := progress_display(todo, steps_to_make(todo, out))):
                    pool.execute(todo, out, progress.on_event)
                if failed := progress.tally.failed:
                    raise InputError(
                        f"finding {finding.name}: {len(failed)} runs failed, the first: {failed[0].run}: {failed[0].text}"
                    )
                if locked := progress.tally.locked:
                    raise InputError(
                        f"finding {finding.name}: {locked} of its runs are in progress in another process; run this command "
                        "again when they have ended"
                    )
        results = {key: [read_result(run.folder(out) / RESULT) for run in own] for key, own in runs.items()}
        seconds = sum(r.timings.total_s for own in results.values() for r in own)
        if finding.probes:
            records = {key: probe_records(finding, own, out, workers) for key, own in runs.items()}
            seconds += sum(record.seconds for own in records.values() for record in own)
        samples, minutes = finding.samples(records if finding.probes else results), seconds / 60
    return Outcome(
        rule=finding.rule,
        samples={label: dict(by_seed) for label, by_seed in samples.items()},
        minutes=round(minutes, 2),
        finished=now(),
        commit=current_commit(),
        versions={"torch": torch.__version__},
    )


def probe_records(finding: "Finding", runs: "list[Run]", out: Path, workers: int | None) -> "list[ProbeRecord]":
    """The records that a finding reads, measured where they are missing; attention is compared between runs of one seed."""
    from bench.probe.measure import PROBES, SIMILARITY, measure_similarity

    from .probe import measure_all

    wanted = {reading.probe for reading in finding.probes.values()}
    records = measure_all(runs, out, [name for name in PROBES if name in wanted], workers)
    if SIMILARITY in wanted:
        for seed in sorted({run.seed for run in runs}):
            records += measure_similarity([run for run in runs if run.seed == seed], out)
    return records


def show_list(findings: "list[Finding]", known: "dict[str, Outcome]", as_json: bool) -> None:
    from rich.console import Console
    from rich.padding import Padding

    from leaderboard.render.findings_page import verdict_of

    verdicts = {f.name: verdict_of(f, known.get(f.name))[0] for f in findings}
    if as_json:
        rows = [
            {"name": f.name, "claim": f.claim, "source": f.source.paper, "minutes": f.minutes, "verdict": verdicts[f.name]}
            for f in findings
        ]
        print_json(rows)
        return
    console = Console(highlight=False)
    for f in findings:
        console.print(f"[bold]{f.name}[/], {f.minutes:g} min: {verdicts[f.name]}")
        console.print(Padding(f"{f.claim} [dim]{f.source.paper.split(',')[0]}[/]", (0, 0, 0, 2)))


def as_row(finding: "Finding", outcome: "Outcome") -> dict[str, Any]:
    """One finding as a JSON object."""
    from leaderboard.render.findings_page import verdict_of

    verdict, parts = verdict_of(finding, outcome)
    return {
        "name": finding.name,
        "claim": finding.claim,
        "verdict": verdict,
        "samples": outcome.samples,
        "parts": [vars(part) for part in parts],
    }


def show(finding: "Finding", outcome: "Outcome") -> None:
    """One finding: the claim, both settings, both numbers, the verdict."""
    from rich.console import Console
    from rich.table import Table

    from leaderboard.render.findings_page import interval, number, verdict_of

    verdict, parts = verdict_of(finding, outcome)
    console, source = Console(), finding.source
    console.print(f"\n[bold]{finding.name}[/]: {finding.claim}", highlight=False)
    second_hand = " (second-hand)" if source.second_hand else ""
    console.print(
        f"  published: {source.paper}; {source.where}{second_hand}\n  their setting: {source.setting}", highlight=False
    )
    console.print("  ours differs: " + "; ".join(finding.differences), highlight=False)
    table = Table("part of the claim", "published", f"ours: {finding.unit}", "verdict", box=None)
    for part in parts:
        table.add_row(part.text, number(part.published), interval(part.estimate, part.half_width), part.verdict)
    console.print(table)
    console.print(f"  verdict: [bold]{verdict}[/]", highlight=False)
