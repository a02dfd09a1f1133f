"""A whole submission of a suite of seconds, and ways to change one that leave its hashes true."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support import ROOT, suite_dict

from bench import encodings, plugins
from bench.check import Finding, Report
from bench.check.subject import load_checks
from bench.results import Result
from bench.runs import now, plan
from bench.suite import Suite, validated
from bench.work import execute, versions
from leaderboard.submission import CHECK, CHECK_PAGE, RESULTS, SUBMISSION
from leaderboard.submit import About, submit
from leaderboard.verify import verify

NAME = "my_encoding"
SOURCE = f"source/{NAME}.py"
ABOUT = About("Fading by the logarithm", ["Ada Lovelace", "Mary Somerville"], "https://arxiv.org/abs/1.2", note="A first try.")


def suite(**changes: object) -> Suite:
    return validated(Suite, suite_dict(**{"seeds": [0, 1, 2]} | changes), "tiny")


SUITE = suite()


def run(reference: str, out: Path, of: Suite) -> str:
    """All runs of an encoding, in this process; its name."""
    name = encodings.get(reference).info.name
    for one in plan(of, [name]):
        execute(one, out, "cpu")
    return name


def report(reference: str, path: Path) -> Path:
    """What `lprime check --json` would have printed had it been run and all had passed: it takes half a minute."""
    cls = encodings.get(reference)
    found = [
        Finding(check=c.name, status="passed", expected=c.expected, found="fine", advice="", seconds=0) for c in load_checks()
    ]
    made = Report(
        encoding=cls.info.name,
        ranking=cls.info.ranking,
        source_sha256=encodings.source_hash(cls),
        versions=versions(),
        device="cpu",
        finished=now(),
        seconds=1,
        findings=found,
    )
    path.write_text(made.model_dump_json())
    return path


def starter(folder: Path) -> str:
    """What `lprime new` writes, which itself would refuse a name that another test has left on Python's path."""
    return str(shutil.copy(ROOT / "bench/starter.py", folder / f"{NAME}.py"))


def made(folder: Path, of: Suite, reference: str = "") -> Path:
    """A submission under ``folder/submissions``, by default of what `lprime new` writes."""
    reference = reference or starter(folder)
    run(reference, folder / "runs", of)
    checked = report(reference, folder / "check.json")
    return submit(reference, of, folder / "runs", folder / "submissions", ABOUT, checked)


def made_apart(folder: Path, of: Suite) -> Path:
    """The same, with no plugin left behind in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "loaded", plugins.Loaded())
        return made(folder, of)


# --- changes by one who knows what is checked


def reseal(folder: Path, change: Callable[[dict], object] = lambda content: None) -> None:
    """Change ``submission.json``, and give it the hashes of whatever is there now."""
    content = json.loads((folder / SUBMISSION).read_text())
    paths = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != SUBMISSION)
    data = {p.relative_to(folder).as_posix(): p.read_bytes() for p in paths}
    content["files"] = [{"path": p, "bytes": len(d), "sha256": hashlib.sha256(d).hexdigest()} for p, d in data.items()]
    change(content)
    (folder / SUBMISSION).write_text(json.dumps(content, ensure_ascii=False))


def edit_runs(folder: Path, change: Callable[[list[dict]], object]) -> None:
    """Change the results, as lists and mappings, in place or by giving others; and reseal."""
    runs = [json.loads(line) for line in (folder / RESULTS).read_text().splitlines()]
    changed = change(runs)
    runs = changed if isinstance(changed, list) else runs
    (folder / RESULTS).write_text("".join(json.dumps(run, ensure_ascii=False) + "\n" for run in runs))
    reseal(folder)


def edit_each(folder: Path, change: Callable[[dict], object]) -> None:
    """Change every run alike."""

    def all_of_them(runs: list[dict]) -> None:
        for one in runs:
            change(one)

    edit_runs(folder, all_of_them)


def edit_report(folder: Path, change: Callable[[dict], object]) -> None:
    """Change the check report, and its page with it; and reseal."""
    content = json.loads((folder / CHECK).read_text())
    change(content)
    (folder / CHECK).write_text(json.dumps(content))
    (folder / CHECK_PAGE).write_text(Report.model_validate(content).markdown())
    reseal(folder)


def results(folder: Path) -> list[Result]:
    return [Result.model_validate_json(line) for line in (folder / RESULTS).read_text().splitlines()]


# --- what is found


def verified(folder: Path, **more) -> dict[str, Finding]:
    return {f.check: f for f in verify(folder, SUITE, **more).findings}


def told(folder: Path, check: str, **more) -> str:
    """What one check found; that it passed is the test's failure. Nothing was loaded meanwhile."""
    before = dict(plugins.loaded.files)
    found = verified(folder, **more)
    assert plugins.loaded.files == before
    assert found[check].status == "failed", {name: (f.status, f.found) for name, f in found.items()}
    assert found[check].expected and found[check].advice
    return found[check].found
