"""``lprime probe``: what trained models do inside. ``lprime reproduce``: published findings, and our numbers next to theirs."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leaderboard import PUBLISHED, published_folder

from .options import Encodings, Json, Out, Seeds, Tasks, Workers, print_json, try_encodings

if TYPE_CHECKING:
    from bench.findings.finding import Finding, Outcome
    from bench.findings.verdict import Judgement
    from bench.runs.progress import Progress
    from bench.runs.run import Run


def probe(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME]... SUITE",
            help="Probes (all by default): position, growth, similarity. The last one is the suite.",
            show_default=False,
        ),
    ],
    encoding: Encodings = None,
    task: Tasks = None,
    seed: Seeds = None,
    workers: Workers = None,
    out: Out = Path("runs"),
    as_json: Json = False,
) -> int:
    """Measure what trained models of a suite's first seed, or of other seeds, do inside; train those that are missing.

    Numbers are files next to the runs' own, probe-<name>.json. `lprime export --probes --to FILE` writes them as one table.
    Those that exist are not measured again. To train on a cluster: `lprime run SUITE --keep-weights --on FILE`.
    """
    from bench.probe.measure import PROBES, measure_runs
    from bench.runs.run import plan_runs
    from bench.suites.suite import holding, load_suite
    from tasks import InputError, unknown

    *names, suite_name = arguments
    if suite_name in PROBES:
        raise InputError(f"expected lprime probe NAME SUITE: the suite comes last, got {suite_name!r}")
    for name in names:
        if name not in PROBES:
            raise unknown("probe", name, PROBES)
    suite_name, task = holding(suite_name, task or [])
    suite, chosen = load_suite(suite_name), names or [*PROBES]
    runs = plan_runs(suite, try_encodings(encoding or suite.encodings), task, seed or suite.seeds[:1])
    ended = make_runs(runs, out, workers, keep_weights=True)
    records = measure_runs([run for run in runs if run.result(out)], out, chosen)
    if as_json:
        print_json([record.model_dump(mode="json") for record in records])
    else:
        for note in sorted({f"{record.encoding}, {record.probe}: {record.note}" for record in records if record.note}):
            print(note)
        print(f"{len(records):,} records of probes under {out / suite.name}; for a table: `lprime export --probes --to FILE`")
    return int(bool(ended.failed or ended.locked))


def make_runs(runs: "list[Run]", out: Path, workers: int | None, keep_weights: bool) -> "Progress":
    """Train and test the runs without a result; returns how they ended."""
    from bench.runs.pool import local_pool
    from bench.runs.progress import Progress, say

    todo = [run for run in runs if not run.result(out)]
    if not todo:
        return Progress([])
    say(f"{len(todo)} runs to do, results under {out / todo[0].suite.name}")
    pool = local_pool(workers, "auto", keep_weights={run.encoding for run in todo} if keep_weights else None)
    progress = Progress(todo)
    with progress.live:
        pool.execute(todo, out, progress.on_event)
    return progress


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME …]", help="Findings to run; none: list all.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show runs, minutes and planned power.")] = False,
    workers: Workers = None,
    out: Out = Path("runs"),
    as_json: Json = False,
    publish: Annotated[bool, typer.Option("--publish", help="Add the outcomes to the published board.")] = False,
) -> int:
    """Run findings of the literature and compare our numbers with the published ones.

    Without a name: list the findings with their verdicts. Runs resume; finished ones are skipped. Exit code 1: a finding is not
    reproduced.
    """
    from bench.findings.finding import OUTCOMES, Outcome, load_finding, shipped_findings
    from bench.findings.verdict import NOT, verdict_of
    from bench.result import read_records, write_records
    from tasks import InputError

    place = PUBLISHED / "results" / OUTCOMES
    if publish and not names:
        raise InputError("expected names of findings with --publish")
    if publish and not place.parent.is_dir():
        raise InputError(f"nothing is published under {PUBLISHED}; --publish needs a checkout")
    found = [load_finding(name) for name in names] if names else shipped_findings()
    if dry_run:
        plans = [plan_of(finding, out) for finding in found]
        if as_json:
            print_json(plans)
        for one in () if as_json else plans:
            print("{name}: {minutes:g} minutes of one core, {plan}, {runs} runs, {done} done".format(**one))
        return 0
    known = read_records(published_folder() / "results" / OUTCOMES, Outcome) if not names else {}
    known |= read_records(out / OUTCOMES, Outcome)
    rows = []
    for finding in found:
        if names:
            known[finding.name] = measure(finding, out, workers)
            for path in [out / OUTCOMES] + [place] * publish:
                write_records(path, read_records(path, Outcome) | {finding.name: known[finding.name]})
        outcome = known.get(finding.name)
        judgement = verdict_of(finding, outcome)
        row = {"name": finding.name, "claim": finding.claim, "source": finding.source.paper, "minutes": finding.minutes}
        row |= asdict(judgement) | {"samples": outcome.samples if outcome else {}}
        rows.append(row)
        if not as_json:
            print(f"{finding.name}: {judgement.verdict}" + f" ({judgement.why})" * bool(judgement.why))
        if names and not as_json:
            show(finding, judgement)
    if as_json:
        print_json(rows)
    return int(bool(names) and any(row["verdict"] == NOT for row in rows))


def measure(finding: "Finding", out: Path, workers: int | None) -> "Outcome":
    """Make the missing runs of a finding, and collect the numbers.

    Raises:
        InputError: a run failed.
    """
    import torch

    from bench.findings.finding import Outcome
    from bench.findings.reading import Reading
    from bench.probe.measure import measure_runs
    from bench.runs.devices import current_commit
    from bench.runs.run import now, plan_runs
    from tasks import InputError

    torch.set_num_threads(1)  # as in the workers
    found: dict[str, list] = {}
    seconds = 0.0
    probes = {one.probe for one in finding.measures.values() if isinstance(one, Reading)}
    for key, suite in finding.grids.items():
        runs = plan_runs(suite, tasks=finding.tasks_of(suite))
        ended = make_runs(runs, out, workers, keep_weights=bool(probes))
        if ended.failed or ended.locked:
            raise InputError(f"finding {finding.name}: {len(ended.failed)} runs failed, {ended.locked} run elsewhere")
        found[key] = results = [result for run in runs if (result := run.result(out))]
        seconds += sum(result.timings.total_s * (result.timings.cpu_share or 1) for result in results)
        if probes:
            found[key] = results + (records := measure_runs(runs, out, probes))
            seconds += sum(record.seconds for record in records)
    return Outcome(
        rule=finding.rule,
        samples=finding.samples(found),
        minutes=round(seconds / 60, 2),
        finished=now(),
        commit=current_commit(),
        versions={"torch": torch.__version__},
    )


def plan_of(finding: "Finding", out: Path) -> dict[str, Any]:
    """Minutes, planned power and runs of a finding."""
    from bench.runs.run import plan_runs

    runs = [run for suite in finding.grids.values() for run in plan_runs(suite, tasks=finding.tasks_of(suite))]
    done = sum(run.result(out) is not None for run in runs)
    power = f"planned power {finding.plan.power:.0%}" if finding.plan else "no plan"
    return {"name": finding.name, "minutes": finding.minutes, "plan": power, "runs": len(runs), "done": done}


def show(finding: "Finding", judgement: "Judgement") -> None:
    """One finding in full: the claim, both numbers and settings, the parts."""
    from bench.findings.verdict import comparison

    print(f"  {finding.claim}\n  {finding.source.paper}; {finding.source.where}\n  {finding.unit}")
    print(f"  {comparison(finding, judgement)}")
    for part in judgement.parts:
        half = "" if part.half_width is None else f" ± {part.half_width:.2g}"
        published = "" if part.published is None else f", published {part.published:.3g}"
        print(f"  {part.text}: {part.estimate:.3g}{half}{published}, p {part.p:.2g}: {part.verdict}")
