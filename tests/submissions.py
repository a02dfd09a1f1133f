"""A complete submission of a small suite, and ways to change it that keep its hashes correct."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from support import ROOT, new_registry, suite_dict

from bench.check import CheckOutcome, Report
from bench.check.checks import load_checks
from bench.plugins import registry
from bench.plugins.registry import get_encoding
from bench.plugins.source_hash import source_hash
from bench.result import Result
from bench.runs.devices import package_versions
from bench.runs.run import now, plan_runs
from bench.runs.run_one import run_one
from bench.suites.suite import Suite, validated
from bench.text_rules import TEMPLATE
from leaderboard.submission.manifest import CHECK, CHECK_PAGE, RESULTS, SUBMISSION
from leaderboard.submission.submit import About, write_submission
from leaderboard.submission.verify import verify_submission

NAME = "my_encoding"
SOURCE = f"source/{NAME}.py"
ABOUT = About("Fading by the logarithm", ["Ada Lovelace", "Mary Somerville"], "https://arxiv.org/abs/1.2", note="A first try.")


def make_suite(**changes: object) -> Suite:
    return validated(Suite, suite_dict(**{"seeds": [0, 1, 2]} | changes), "tiny")


SUITE = make_suite()


def execute_all(reference: str, out: Path, suite: Suite) -> None:
    """All runs of an encoding, in this process."""
    for run in plan_runs(suite, [get_encoding(reference).info.name]):
        run_one(run, out, "cpu")


def write_passed_report(reference: str, path: Path) -> Path:
    """What ``lprime check --json`` would print if all checks passed, which would take half a minute."""
    cls = get_encoding(reference)
    report = Report(
        encoding=cls.info.name,
        ranking=cls.info.ranking,
        source_sha256=source_hash(cls),
        versions=package_versions(),
        device="cpu",
        finished=now(),
        seconds=1,
        findings=[
            CheckOutcome(check=c.name, status="passed", expected=c.expected, found="fine", advice="", seconds=0)
            for c in load_checks()
        ],
    )
    path.write_text(report.model_dump_json())
    return path


def copy_template(folder: Path) -> str:
    """What ``lprime new`` writes; the command would refuse a name that another test has left on Python's path."""
    text = (ROOT / "bench/plugins/template.py").read_text()
    for key, given in {"title": "Fading", "authors": "Ada", "link": "https://example.org/fading"}.items():
        text = text.replace(f'{key}="{TEMPLATE[key]}"', f'{key}="{given}"')
    (folder / f"{NAME}.py").write_text(text)
    return str(folder / f"{NAME}.py")


def make_submission(folder: Path, suite: Suite) -> Path:
    """A submission of the template under ``folder/submissions``."""
    reference = copy_template(folder)
    execute_all(reference, folder / "runs", suite)
    report = write_passed_report(reference, folder / "check.json")
    return write_submission(reference, suite, folder / "runs", folder / "submissions", ABOUT, report)


def make_submission_apart(folder: Path, suite: Suite) -> Path:
    """The same, without leaving a plugin loaded in this process."""
    with new_registry():
        return make_submission(folder, suite)


# --- changes that keep the hashes correct


def reseal(folder: Path, change: Callable[[dict], object] = lambda content: None) -> None:
    """Change ``submission.json``, and correct its sizes and hashes of the other files."""
    content = json.loads((folder / SUBMISSION).read_text())
    paths = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != SUBMISSION)
    data = {p.relative_to(folder).as_posix(): p.read_bytes() for p in paths}
    content["files"] = [{"path": p, "bytes": len(d), "sha256": hashlib.sha256(d).hexdigest()} for p, d in data.items()]
    change(content)
    (folder / SUBMISSION).write_text(json.dumps(content, ensure_ascii=False))


def edit_runs(folder: Path, change: Callable[[list[dict]], object]) -> None:
    """Change the list of results in place, or replace it by the list that ``change`` returns; and reseal."""
    runs = [json.loads(line) for line in (folder / RESULTS).read_text().splitlines()]
    changed = change(runs)
    runs = changed if isinstance(changed, list) else runs
    (folder / RESULTS).write_text("".join(json.dumps(run, ensure_ascii=False) + "\n" for run in runs))
    reseal(folder)


def edit_each(folder: Path, change: Callable[[dict], object]) -> None:
    """Change every run in place; and reseal."""

    def change_all(runs: list[dict]) -> None:
        for run in runs:
            change(run)

    edit_runs(folder, change_all)


def first_wrong(*counts: int) -> dict[str, list[int]]:
    """Scores with so many examples whose first wrong token is in the first tenths of their answer."""
    return {"first_wrong": [*counts, *[0] * (10 - len(counts))]}


PERFECT = {"exact": 1.0, "token": 1.0, "nll": 0.0, **first_wrong()}
"""Scores of a model that is always right."""


def edit_report(folder: Path, change: Callable[[dict], object]) -> None:
    """Change the check report and its page; and reseal."""
    content = json.loads((folder / CHECK).read_text())
    change(content)
    (folder / CHECK).write_text(json.dumps(content))
    (folder / CHECK_PAGE).write_text(Report.model_validate(content).markdown())
    reseal(folder)


def read_results(folder: Path) -> list[Result]:
    return [Result.model_validate_json(line) for line in (folder / RESULTS).read_text().splitlines()]


def publish_as(runs: list[Result], name: str, board: Path) -> Path:
    """Publish runs on a board under the name of another encoding; the board."""
    (board / "results/tiny").mkdir(parents=True)
    renamed = [r.model_copy(update={"encoding": r.encoding.model_copy(update={"name": name})}) for r in runs]
    (board / f"results/tiny/{name}.jsonl").write_text("".join(r.model_dump_json() + "\n" for r in renamed))
    return board


# --- findings


def findings_of(folder: Path, suite: Suite = SUITE, **more) -> dict[str, CheckOutcome]:
    return {f.check: f for f in verify_submission(folder, suite, **more).findings}


def fault_of(folder: Path, check: str, **more) -> str:
    """What one failed check found; no plugin was loaded meanwhile."""
    before = dict(registry.loaded.files)
    findings = findings_of(folder, **more)
    assert registry.loaded.files == before
    assert findings[check].status == "failed", {name: (f.status, f.found) for name, f in findings.items()}
    assert findings[check].expected and findings[check].advice
    return findings[check].found
