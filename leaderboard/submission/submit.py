"""``lprime submit``: write an encoding's source, results and check report into a folder."""

import inspect
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from bench.check import Report, check_encoding
from bench.check.source_rules import plugin_files
from bench.encodings import Encoding, Wrapper
from bench.files import folder_atomic
from bench.plugins import registry
from bench.plugins.registry import get_encoding
from bench.plugins.source_hash import closure, source_hash
from bench.result import Result, first_fault
from bench.runs.devices import package_versions
from bench.runs.run import now, plan_runs
from bench.suites.suite import Suite, suite_command
from leaderboard import PUBLISHED
from leaderboard.data.file_names import page_name
from leaderboard.data.store import line_order
from tasks import InputError

from . import manifest
from .manifest import Plugin, Submission, SuiteRecord, Training, file_records
from .verify import verify_submission
from .verify.read_untrusted import parse_record


@dataclass(frozen=True)
class About:
    """Texts from the submitter; empty ones are taken from the encoding's ``info``."""

    title: str = ""
    authors: Sequence[str] = ()
    paper: str = ""
    licence: str = "Apache-2.0"
    note: str = ""


def write_submission(
    reference: str,
    suite: Suite,
    out: Path,
    to: Path,
    about: About | None = None,
    report: Path | None = None,
    replace: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> Path:
    """Write ``<to>/<name>/`` for an encoding, atomically.

    Arguments:
        out: folder of its runs: all tasks and seeds of the suite.
        report: the output of ``lprime check --json`` for this source; by default the checks run now.
        replace: replace an existing submission of that name.
        say: called with progress messages.

    Raises:
        InputError: the encoding is built in; runs are missing, failed, or of other source; a check fails; the
            submission would not pass ``lprime verify``.
    """
    cls = get_encoding(reference)
    name, source = cls.info.name, source_hash(cls)
    place = to / page_name(name)
    if place.exists() and not replace:
        raise InputError(f"{place} exists already; replace it with --replace, or choose another --to")
    plugin = find_plugin(cls)
    files, takes_from = plugin_files(plugin), sorted(path.stem for path in closure(plugin)[0].values())
    results = finished_runs(suite, reference, name, source, out)
    contents = {f"{manifest.SOURCE}/{path}": content for path, content in files.items()}
    contents[manifest.RESULTS] = "".join(r.model_dump_json() + "\n" for r in results).encode()
    try:  # before the checks, which take a minute
        submission = build_submission(cls, plugin, suite, results, contents, takes_from, about or About())
    except ValidationError as error:
        raise InputError(f"{name} cannot be submitted: {first_fault(error)}") from None
    checked = read_report(report, name, source) if report else run_checks(reference, say)
    contents |= {
        manifest.CHECK: (checked.model_dump_json(indent=1) + "\n").encode(),
        manifest.CHECK_PAGE: checked.markdown().encode(),
    }
    submission = submission.model_copy(update={"files": file_records(contents)})
    contents[manifest.SUBMISSION] = (submission.model_dump_json(indent=1) + "\n").encode()
    with folder_atomic(place, replace) as folder:
        for path, content in contents.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        for finding in verify_submission(folder, suite, PUBLISHED, name=place.name).findings:
            if finding.status != "passed":
                raise InputError(f"{name} cannot be submitted: {finding.check}: {finding.found}; {finding.advice}")
    return place


def find_plugin(cls: type[Encoding]) -> type[Encoding]:
    """The plugin class in an encoding, which may add settings and wrappers.

    Raises:
        InputError: there is none, or more than one.
    """
    parts = []
    while cls is not Encoding:
        parts.append(cls)
        cls = cls.inner if issubclass(cls, Wrapper) else Encoding
    loaded = [plugin.cls for plugin in registry.loaded.plugins.values()]
    plugins = {plugin.info.name: plugin for plugin in loaded if any(plugin in part.__mro__ for part in parts)}
    if not plugins:
        raise InputError(
            f"{parts[0].info.name} is built in; expected an encoding of your own, such as my_encoding.py (`lprime publish` "
            "is for built-in ones)"
        )
    if len(plugins) > 1:
        raise InputError(
            f"{parts[0].info.name} contains {len(plugins)} plugins ({', '.join(plugins)}); expected one, in one folder"
        )
    return next(iter(plugins.values()))


def finished_runs(suite: Suite, reference: str, name: str, source: str, out: Path) -> list[Result]:
    """One run of every task and seed, all of this source, in the order of published results.

    Raises:
        InputError: a run is missing, failed, or of other source.
    """
    runs = plan_runs(suite, [name])
    states = {run: run.state(out) for run in runs}
    missing: dict[str, list[str]] = {}
    for run, state in states.items():
        if state not in ("done", "diverged"):
            missing.setdefault(run.task, []).append(f"{run.seed}" + ("" if state == "missing" else f" ({state})"))
    if missing:
        which = "; ".join(f"{task} seed{'s' * (len(seeds) > 1)} {', '.join(seeds)}" for task, seeds in missing.items())
        retry = ["--retry-failed"] if "failed" in states.values() else []
        command = suite_command("run", suite.name, "--encoding", reference, *retry, out=out)
        raise InputError(
            f"{sum(map(len, missing.values()))} of {len(runs)} runs of {name} in suite {suite.name} are missing under "
            f"{out / suite.name}: {which}; run `{command}` first"
        )
    results = [result for run in runs if (result := run.result(out))]
    stale = [run for run, result in zip(runs, results, strict=True) if result.encoding.source_sha256 != source]
    if stale:
        raise InputError(
            f"{len(stale)} of {len(runs)} runs of {name} do not have the current source (hash {source[:12]}), "
            f"such as {stale[0].folder(out)}; delete them and run again, or restore that source"
        )
    return sorted(results, key=line_order)


def run_checks(reference: str, say: Callable[[str], None]) -> Report:
    """Run ``lprime check``.

    Raises:
        InputError: a check failed.
    """
    say("checking the encoding …")
    report = check_encoding(reference)
    say(report.summary())
    if not report.passed:
        failed = next(f for f in report.findings if f.status == "failed")
        raise InputError(
            f"{report.encoding} does not pass `lprime check {shlex.quote(reference)}`: {failed.check}: {failed.found}; "
            f"{failed.advice}"
        )
    return report


def read_report(path: Path, name: str, source: str) -> Report:
    """Read the report of an earlier ``lprime check --json``.

    Raises:
        InputError: it is not a report, is of another encoding or source, or a check failed.
    """
    try:
        report = parse_record(path.read_bytes(), Report)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except InputError as error:
        raise InputError(f"{path} is not a report of `lprime check --json`: {error}") from None
    if (report.encoding, report.source_sha256) != (name, source):
        raise InputError(
            f"{path} is of {report.encoding!r:.80}, source {report.source_sha256:.12}; expected {name}, source {source[:12]}: "
            "run `lprime check` again, or omit --check"
        )
    if not report.passed:
        raise InputError(f"{path}: {report.summary()}; expected all to pass")
    return report


def build_submission(
    cls: type[Encoding],
    plugin: type[Encoding],
    suite: Suite,
    results: Sequence[Result],
    contents: Mapping[str, bytes],
    takes_from: list[str],
    about: About,
) -> Submission:
    """The content of ``submission.json``, with the files so far.

    Raises:
        ValidationError: a text or the name of a file is not allowed.
    """
    info, module = plugin.info, plugin.__module__
    file = Path(inspect.getfile(sys.modules[module])).resolve().relative_to(registry.source_of(module).root.resolve())
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
        source_sha256=source_hash(cls),
        takes_from=takes_from,
        files=file_records(contents),
        versions=package_versions(),
        made=now(),
    )
