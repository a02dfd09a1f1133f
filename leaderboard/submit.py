"""``lprime submit``: everything that a row on the board hangs on, gathered into a folder."""

import hashlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import encodings, plugins
from bench.check import Report
from bench.check import check as run_checks
from bench.check.source import own_files
from bench.encodings import Encoding, Wrapper
from bench.files import folder_atomic
from bench.results import Result
from bench.runs import now, plan
from bench.suite import Suite
from bench.work import versions
from tasks import InputError

from . import submission as form
from .names import page_name
from .store import order
from .submission import FileRecord, Plugin, Submission, SuiteRecord, Training
from .verify import verify
from .verify.reading import record


@dataclass(frozen=True)
class About:
    """What submitters say of their encoding; what is left out is taken from its ``info``."""

    title: str = ""
    authors: Sequence[str] = ()
    paper: str = ""
    licence: str = "Apache-2.0"
    note: str = ""


def submit(
    reference: str,
    suite: Suite,
    out: Path,
    to: Path,
    about: About | None = None,
    report: Path | None = None,
    replace: bool = False,
    say: Callable[[str], None] = lambda text: None,
    published: Path = Path("leaderboard"),
) -> Path:
    """Write ``<to>/<name>/`` for the encoding of a reference, whole or not at all.

    Arguments:
        out: where its runs are, all of the suite's tasks and seeds.
        report: what ``lprime check --json`` printed for this very source; by default the checks are made now.
        replace: whether a submission of that name may be there already.
        published: a leaderboard's folder, whose results nobody may have copied; by default what `lprime verify` looks at.

    Raises:
        InputError: it is built in; runs are missing, failed, or were made from other source; a check fails; the submission
            would not pass ``lprime verify``.
    """
    cls = encodings.get(reference)
    name, source = cls.info.name, encodings.source_hash(cls)
    place = to / page_name(name)
    if place.exists() and not replace:
        raise InputError(f"{place} is there already; replace it with --replace, or choose another --to")
    plugin = own_plugin(cls)
    files, takes_from = own_files(plugin), sorted(path.stem for path in encodings.closure(plugin)[0].values())
    results = finished_runs(suite, name, source, out)
    checked = read_report(report, name, source) if report else passed(reference, say)
    contents = {f"{form.SOURCE}/{path}": content for path, content in files.items()} | {
        form.RESULTS: "".join(r.model_dump_json() + "\n" for r in results).encode(),
        form.CHECK: (checked.model_dump_json(indent=1) + "\n").encode(),
        form.CHECK_PAGE: checked.markdown().encode(),
    }
    made = described(cls, plugin, suite, results, contents, takes_from, about or About())
    with folder_atomic(place, replace) as new:
        for path, content in (contents | {form.SUBMISSION: (made.model_dump_json(indent=1) + "\n").encode()}).items():
            (new / path).parent.mkdir(parents=True, exist_ok=True)
            (new / path).write_bytes(content)
        for finding in verify(new, suite, published, name=place.name).findings:
            if finding.status != "passed":
                raise InputError(f"{name} cannot be submitted: {finding.check}: {finding.found}; {finding.advice}")
    return place


def own_plugin(cls: type[Encoding]) -> type[Encoding]:
    """The class of a plugin that an encoding is, wraps, or is set in.

    Raises:
        InputError: there is none, or more than one.
    """
    parts = []
    while cls is not Encoding:
        parts.append(cls)
        cls = cls.inner if issubclass(cls, Wrapper) else Encoding
    found = {p.cls.info.name: p.cls for p in plugins.loaded.plugins.values() if any(p.cls in part.__mro__ for part in parts)}
    if not found:
        raise InputError(
            f"{parts[0].info.name} is built in; expected an encoding of your own, such as my_encoding.py (`lprime publish` is "
            "for those that are here)"
        )
    if len(found) > 1:
        raise InputError(
            f"{parts[0].info.name} is made of {len(found)} plugins ({', '.join(found)}); expected one, in one folder"
        )
    return next(iter(found.values()))


def finished_runs(suite: Suite, name: str, source: str, out: Path) -> list[Result]:
    """One run of every task and seed, all made from this source, in the order of the store.

    Raises:
        InputError: something is missing, failed, or was made from other source.
    """
    runs = plan(suite, [name])
    states = {run: run.state(out) for run in runs}
    lacking: dict[str, list[str]] = {}
    for run, state in states.items():
        if state not in ("done", "diverged"):
            lacking.setdefault(run.task, []).append(f"{run.seed}" + ("" if state == "missing" else f" ({state})"))
    if lacking:
        which = "; ".join(f"{task} seed{'s' * (len(seeds) > 1)} {', '.join(seeds)}" for task, seeds in lacking.items())
        raise InputError(
            f"{name} lacks {sum(map(len, lacking.values()))} of {len(runs)} runs of suite {suite.name} under {out / suite.name}"
            f": {which}; `lprime run` the suite with --encoding (and --retry-failed), all seeds count"
        )
    results = [result for run in runs if (result := run.result(out))]
    stale = [run for run, result in zip(runs, results, strict=True) if result.encoding.source_sha256 != source]
    if stale:
        raise InputError(
            f"{len(stale)} of {len(runs)} runs of {name} were made from other source than it has now (hash {source[:12]}), "
            f"such as {stale[0].folder(out)}; delete them and run again, or bring that source back"
        )
    return sorted(results, key=order)


def passed(reference: str, say: Callable[[str], None]) -> Report:
    """The report of the checks, made now.

    Raises:
        InputError: one failed.
    """
    say("checking the encoding …")
    report = run_checks(reference)
    say(report.summary())
    if not report.passed:
        worst = next(f for f in report.findings if f.status != "passed")
        raise InputError(
            f"{report.encoding} does not pass `lprime check {reference}`: {worst.check}: {worst.found}; {worst.advice}"
        )
    return report


def read_report(path: Path, name: str, source: str) -> Report:
    """A report that was made before.

    Raises:
        InputError: it is none, is of something else, or not all passed.
    """
    try:
        report = record(path.read_bytes(), Report)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except InputError as error:
        raise InputError(f"{path} is not what `lprime check --json` prints: {error}") from None
    if (report.encoding, report.source_sha256) != (name, source):
        raise InputError(
            f"{path} is of {report.encoding!r:.80}, source {report.source_sha256:.12}; expected {name}, source {source[:12]}: "
            "check it anew, or leave --check out"
        )
    if not report.passed:
        raise InputError(f"{path}: {report.summary()}; expected all to pass")
    return report


def described(
    cls: type[Encoding],
    plugin: type[Encoding],
    suite: Suite,
    results: Sequence[Result],
    contents: Mapping[str, bytes],
    takes_from: list[str],
    about: About,
) -> Submission:
    """``submission.json``."""
    info, module = plugin.info, plugin.__module__
    file = Path(inspect.getfile(sys.modules[module])).resolve().relative_to(plugins.source_of(module).root.resolve())
    return Submission(
        name=cls.info.name,
        title=about.title or info.title,
        authors=list(about.authors) or [info.authors],
        paper=about.paper or info.link,
        licence=about.licence,
        note=about.note,
        ranking=cls.info.ranking,
        training=Training(
            longest={spec.task: max(r.longest_seen for r in results if r.task == spec.task) for spec in suite.tasks},
            extra_stage=any(r.longest_seen > r.train_length for r in results),
            task_aware=cls.info.ranking == "task-aware",
        ),
        suite=SuiteRecord(name=suite.name, version=suite.version, fingerprint=suite.fingerprint),
        plugin=Plugin(name=info.name, file=file.as_posix(), cls=plugin.__qualname__),
        source_sha256=encodings.source_hash(cls),
        takes_from=takes_from,
        files=[
            FileRecord(path=path, bytes=len(contents[path]), sha256=hashlib.sha256(contents[path]).hexdigest())
            for path in sorted(contents)
        ],
        versions=versions(),
        made=now(),
    )
