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
    from bench.findings.outcome import Outcome
    from bench.probe.record import ProbeRecord
    from bench.runs.run import Run


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME …]", help="Findings to run; none: list all.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the runs, their minutes and the power.")] = False,
    workers: Workers = None,
    out: Out = Path("runs"),
    as_json: Json = False,
    publish: Annotated[bool, typer.Option("--publish", help="Add the outcomes to the published board.")] = False,
) -> int:
    """Run findings of the literature and compare our numbers with the published ones.

    Without a name: list the findings with their verdicts. Runs resume; finished ones are skipped. Exit code 1: a finding is not
    reproduced.
    """
    from bench.findings.finding import load_finding, shipped_findings
    from bench.findings.outcome import OUTCOMES, published_outcomes, read_outcomes, write_outcomes
    from bench.findings.verdict import NOT, verdict_of
    from tasks import InputError

    place = published_outcomes(PUBLISHED)
    if publish and not names:
        raise InputError("expected names of findings with --publish")
    if publish and not place.parent.is_dir():
        raise InputError(f"nothing is published under {PUBLISHED}; --publish needs a checkout")
    found = [load_finding(name) for name in names] if names else shipped_findings()
    if dry_run:
        show_plan(found, out)
        return 0
    if not names:
        show_list(found, read_outcomes(published_outcomes(published_folder())) | read_outcomes(out / OUTCOMES), as_json)
        return 0
    code, rows = 0, []
    for finding in found:
        with redirect_stdout(sys.stderr) if as_json else nullcontext():  # progress
            known = read_outcomes(out / OUTCOMES).get(finding.name)
            outcome = known if known and is_current(finding, known) else measure(finding, out, workers)
        for path in [out / OUTCOMES] + [place] * publish:
            write_outcomes(path, read_outcomes(path) | {finding.name: outcome})
        judgement = verdict_of(finding, outcome)
        code = max(code, int(judgement.verdict == NOT))
        if as_json:
            parts = [vars(part) for part in judgement.parts]
            rows.append({**as_row(finding, judgement.verdict), "p": judgement.p, "samples": outcome.samples, "parts": parts})
        else:
            show(finding, outcome)
    if as_json:
        print_json(rows)
    return code


def is_current(finding: "Finding", outcome: "Outcome") -> bool:
    """Whether a finding's code would give the same numbers again. Those of runs are read again, because runs resume."""
    import torch

    from bench.runs.devices import current_commit

    commit = current_commit()
    same = (outcome.rule, outcome.commit, outcome.versions) == (finding.rule, commit, {"torch": torch.__version__})
    return bool(finding.code and same and commit and not commit.endswith("-dirty"))


def measure(finding: "Finding", out: Path, workers: int | None) -> "Outcome":
    """Make the missing runs of a finding, or run its code, and collect the numbers.

    Raises:
        InputError: a run failed.
    """
    import torch

    from bench.findings.outcome import Outcome
    from bench.probe.measure import measure_runs
    from bench.result import RESULT, read_result
    from bench.runs.devices import current_commit
    from bench.runs.run import now, plan_runs

    start = time.monotonic()
    torch.set_num_threads(1)  # as in the workers
    if finding.code:
        samples, minutes = finding.compute(), (time.monotonic() - start) / 60
    else:
        runs = {key: plan_runs(suite, tasks=finding.tasks(suite)) for key, suite in finding.grids.items()}
        for own in runs.values():
            make_runs(finding, own, out, workers)
        results = {key: [read_result(run.folder(out) / RESULT) for run in own] for key, own in runs.items()}
        records: dict[str, list[ProbeRecord]] = {key: [] for key in runs}
        wanted = {reading.probe for reading in finding.probes.values()}
        for key, own in runs.items() if wanted else ():
            for seed in sorted({run.seed for run in own}):  # attention is compared between runs of one seed
                records[key] += measure_runs([run for run in own if run.seed == seed], out, wanted, workers)
        seconds = sum(r.timings.total_s for own in results.values() for r in own)
        seconds += sum(record.seconds for own in records.values() for record in own)
        samples, minutes = finding.samples(records if wanted else results), seconds / 60
    return Outcome(
        rule=finding.rule,
        samples={label: dict(by_seed) for label, by_seed in samples.items()},
        minutes=round(minutes, 2),
        finished=now(),
        commit=current_commit(),
        versions={"torch": torch.__version__},
    )


def make_runs(finding: "Finding", runs: "list[Run]", out: Path, workers: int | None) -> None:
    """Make the missing ones of a suite's runs."""
    from bench.runs.pool import local_pool
    from bench.runs.progress import progress_display, say
    from bench.runs.shared_training import steps_to_make
    from tasks import InputError

    todo = [run for run in runs if not run.result(out)]
    if not todo:
        return
    say(f"{finding.name}: {len(todo)} runs to do, results under {out / todo[0].suite.name}")
    pool = local_pool(workers, "auto", keep_weights={run.encoding for run in todo} if finding.probes else None)
    with (progress := progress_display(todo, steps_to_make(todo, out))):
        pool.execute(todo, out, progress.on_event)
    if failed := progress.failed:
        raise InputError(f"finding {finding.name}: {len(failed)} runs failed, the first: {failed[0].run}: {failed[0].text}")
    if locked := progress.locked:
        raise InputError(
            f"finding {finding.name}: {locked} of its runs are in progress in another process; run this command again when "
            "they have ended"
        )


def show_plan(findings: "list[Finding]", out: Path) -> None:
    """Minutes, power and missing runs of findings."""
    from bench.runs.run import plan_runs
    from tasks import plural

    for finding in findings:
        power = f", power {finding.planned.power:.0%}" if finding.planned else ""
        print(f"{finding.name}: {finding.minutes:g} minutes of one core{power}")
        if finding.code:
            print(f"  code bench/findings/{finding.code}.py, {plural(len(finding.seeds), 'seed')}")
        for suite in finding.grids.values():
            runs = plan_runs(suite, tasks=finding.tasks(suite))
            done = sum(run.result(out) is not None for run in runs)
            names, tasks = ", ".join(suite.encoding_names), ", ".join(finding.tasks(suite))
            print(f"  suite {suite.name}: {plural(len(runs), 'run')}, {done} of them done ({names}; {tasks})")


def as_row(finding: "Finding", verdict: str) -> dict[str, Any]:
    """One finding as a JSON object."""
    return {
        "name": finding.name,
        "claim": finding.claim,
        "source": finding.source.paper,
        "minutes": finding.minutes,
        "verdict": verdict,
        "why": finding.withdrawn or finding.objection,
    }


def show_list(findings: "list[Finding]", known: "dict[str, Outcome]", as_json: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from bench.findings.verdict import verdict_of

    judged = [(finding, verdict_of(finding, known.get(finding.name)).verdict) for finding in findings]
    if as_json:
        print_json([as_row(*one) for one in judged])
        return
    table = Table("finding", "minutes", "verdict", "why, or what may be objected", box=None)
    for finding, verdict in judged:
        table.add_row(finding.name, f"{finding.minutes:g}", verdict, finding.withdrawn or finding.objection)
    Console(highlight=False).print(table)


def show(finding: "Finding", outcome: "Outcome") -> None:
    """One finding: the claim, both settings, both numbers, the verdict."""
    from rich.console import Console
    from rich.table import Table

    from bench.findings.verdict import verdict_of

    judgement, console, source = verdict_of(finding, outcome), Console(highlight=False), finding.source
    console.print(f"\n[bold]{finding.name}[/]: {finding.claim}")
    second_hand = " (second-hand)" if source.second_hand else ""
    console.print(f"  published: {source.paper}; {source.where}{second_hand}\n  their setting: {source.setting}")
    console.print("  ours differs: " + "; ".join(finding.differences))
    table = Table("part of the claim", "published", f"ours: {finding.unit}", "p", "verdict", box=None)
    for part in judgement.parts:
        published = "" if part.published is None else f"{part.published:.3g}"
        half = "" if part.half_width is None else f" ± {part.half_width:.2g}"
        table.add_row(part.text, published, f"{part.estimate:.3g}{half}", f"{part.p:.2g}", part.verdict)
    console.print(table)
    console.print(f"  verdict: [bold]{judgement.verdict}[/]" + (f" ({judgement.why})" if judgement.why else ""))
