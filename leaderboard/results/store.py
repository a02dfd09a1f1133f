"""The store of published runs: text files, kept in git.

::

    <folder>/results/<suite>/<encoding>.jsonl    one finished run per line, by task, learning rate and seed; all versions
    <folder>/results/<suite>/failures.json       failed runs that have no result
    <folder>/results/cards.json                  see ``cards``
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from bench.result import RESULT, Result, check_identity, reading, run_path
from bench.runs.run import FAILURE, read_failure
from tasks import InputError, unknown

from .cards import declared
from .file_names import SUFFIX, check_names, file_name
from .files import RESULTS, read_file, stored_lines, write_if_changed
from .frame import Text, build_frame, refuse_damage
from .local import FAILED, run_files

FAILURES = "failures.json"
OUTCOME = ("variant", "train_length", "longest_seen", "status", "steps", "loss", "scores", "parameters", "data_hash")
"""Keys of a result that are the outcome of a run. Two results of one run may differ in dates, timings and machine, but not in
these."""


class Publication(NamedTuple):
    """Changes that ``publish`` made to the store."""

    suite: str
    added: int
    """New runs."""
    kept: int
    """Runs published before, with the same outcome."""
    failures: int
    """Failed runs of the suite without a result, now in the store."""


def read_published(folder: Path, suite: str | None = None) -> pd.DataFrame:
    """The frame of the published runs, by suite, encoding, task, learning rate and seed; without rows if there are none.

    Source, lengths and stage of an encoding are those that its card declares now.

    Arguments:
        folder: of the published board.
        suite: read this suite only.
    """
    names = published_suites(folder) if suite is None else [suite]
    return declared(build_frame((text for name in names for text in texts(folder / RESULTS / name)), "published"), folder)


def published_suites(folder: Path) -> list[str]:
    """Names of the published suites, sorted."""
    name = r"[a-z0-9_-][a-z0-9_.-]*"
    return [path.name for path in sorted((folder / RESULTS).glob("*")) if path.is_dir() and re.fullmatch(name, path.name)]


def published_failures(folder: Path, suite: str) -> pd.DataFrame:
    """The failed runs of a suite without a result: suite, fingerprint, task, encoding, seed, error, finished, origin.

    Raises:
        InputError: a broken file.
    """
    rows = [{**failure, "suite": suite, "origin": "published"} for failure in stored_failures(folder / RESULTS / suite)]
    return pd.DataFrame(rows, columns=FAILED)


def texts(place: Path) -> Iterator[Text]:
    """The stored runs of one suite's folder."""
    for where, data, file in stored_lines(place):
        yield Text(where, data, (place.name, file.removesuffix(SUFFIX)))


def publish(suite: str, out: Path, folder: Path, encodings: Sequence[str] | None = None) -> Publication:
    """Add the finished runs under ``<out>/<suite>`` to the store. Publishing the same runs again changes nothing.

    Runs of code that is not built in must be sealed.

    Arguments:
        suite: name of the suite.
        folder: the published board; the store is its ``results``.
        encodings: publish only these; None publishes all that have runs.

    Raises:
        InputError: no runs, a broken or contradictory one, one that is not sealed, a name that no file can have, or a run
            published before with another outcome. Nothing is written then.
    """
    from bench.plugins.registry import is_built_in

    place, found = folder / RESULTS / suite, dict(read_runs(out / suite, suite))
    if not found:
        raise InputError(f"no results of suite {suite} under {out / suite}; `lprime run` writes them")
    have = sorted({key.encoding for key in found})
    for encoding in encodings or ():
        if encoding not in have:
            raise unknown(f"encoding with results of suite {suite}", encoding, have)
    found = {key: run for key, run in found.items() if not encodings or key.encoding in encodings}
    for key, run in found.items():
        if not (run.sealed or is_built_in(key.encoding)):
            raise InputError(
                f"{out / run.path / RESULT}: {key.encoding} is not built in, and the run was not sealed; "
                f"run it again with `lprime run {suite} --sealed`"
            )
    stored = {key_of(json.loads(text.data)): text.data for text in whole(texts(place))}
    new = {key: run for key, run in found.items() if key not in stored}
    for key in found.keys() & stored.keys():
        refuse_other_outcome(found[key], json.loads(stored[key]), out, place)
    lines = stored | {key: run.model_dump_json().encode() for key, run in new.items()}
    with refuse_damage():  # repeated or contradictory runs, before anything is written
        build_frame((Text(f"{key.task} of {key.encoding}", line, (suite,)) for key, line in lines.items()), "published")
    published = {key.encoding for key in lines}
    failures = merged_failures(place, out / suite, encodings, set(lines), published)
    check_names(published)

    for encoding in sorted({key.encoding for key in new}):
        own = sorted((key for key in lines if key.encoding == encoding), key=line_order)
        write_if_changed(place / file_name(encoding), b"".join(lines[key] + b"\n" for key in own))
    rows = ",\n".join(json.dumps(failure, ensure_ascii=False) for failure in failures)
    write_if_changed(place / FAILURES, f"[\n{rows}\n]\n" if failures else None)
    return Publication(suite, len(new), len(found) - len(new), len(failures))


class RunKey(NamedTuple):
    """What identifies a run of a suite."""

    encoding: str
    task: str
    learning_rate: float
    """0 where the suite does not sweep it."""
    seed: int
    version: int
    fingerprint: str


def key_of(content: dict[str, Any]) -> RunKey:
    rate = content.get("learning_rate") or 0.0
    version, fingerprint = content["suite_version"], content["fingerprint"]
    return RunKey(content["encoding"]["name"], content["task"], rate, content["seed"], version, fingerprint)


def line_order(key: RunKey) -> tuple:
    """Sort key of the lines of a file."""
    return key[1:]


def read_runs(place: Path, suite: str) -> Iterator[tuple[RunKey, Result]]:
    """The validated results of one suite's run folders.

    Raises:
        InputError: a result that is not whole, or in the folder of another run.
    """
    for path, task, encoding, seed, rate in run_files(place, RESULT):
        with reading(path, "is not a whole result", "delete it to run it again"):
            result = Result.model_validate_json(read_file(path))
        check_identity(path, result.path, run_path(suite, task, encoding, seed, rate))
        yield key_of(json.loads(result.model_dump_json(include=IDENTITY))), result


IDENTITY: Any = {"encoding": {"name"}} | dict.fromkeys(("task", "learning_rate", "seed", "suite_version", "fingerprint"), True)


def whole(lines: Iterator[Text]) -> Iterator[Text]:
    """Stored lines that are whole results of their file.

    Raises:
        InputError: one that is not.
    """
    for text in lines:
        with reading(f"{text.where},", "is not a whole result", "restore it from git, or delete the line"):
            result = Result.model_validate_json(text.data)
        check_identity(f"{text.where},", f"{result.suite}/{result.encoding.name}", "/".join(text.expected))
        yield text


def refuse_other_outcome(result: Result, stored: dict[str, Any], out: Path, place: Path) -> None:
    """Refuse a result that contradicts the published one of the same run."""
    content = json.loads(result.model_dump_json())
    differ = [name for name in OUTCOME if content[name] != stored[name]]
    differ += ["settings"] if content["encoding"]["settings"] != stored["encoding"]["settings"] else []
    if differ:
        raise InputError(
            f"{out / result.path / RESULT} contradicts the published {result.task} seed {result.seed} of "
            f"{place / file_name(result.encoding.name)} in {', '.join(differ)}, though suite and seed are the same; find out "
            "why (another processor or version may round differently), then delete one"
        )


def stored_failures(place: Path) -> list[dict[str, Any]]:
    path = place / FAILURES
    if not path.exists():
        return []
    try:
        found = json.loads(read_file(path))
        return [{name: failure[name] for name in FAILED if name not in ("suite", "origin")} for failure in found]
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path} is not a list of failed runs ({error}); restore it from git, or delete it") from error


def merged_failures(
    place: Path, runs: Path, encodings: Sequence[str] | None, finished: set[RunKey], published: set[str]
) -> list[dict[str, Any]]:
    """Failures of published encodings without a result. New ones replace stored ones, and lose their traceback, which shows
    paths of the machine."""
    merged = {(f["task"], f["encoding"], f["seed"], f["fingerprint"]): f for f in stored_failures(place)}
    for path, task, encoding, seed, _ in run_files(runs, FAILURE):
        failure = read_failure(path)
        if failure and encoding in published and (not encodings or encoding in encodings):
            own = {"fingerprint": failure.fingerprint, "task": task, "encoding": encoding, "seed": seed}
            merged[task, encoding, seed, failure.fingerprint] = own | {"error": failure.error, "finished": failure.finished}
    done = {(key.task, key.encoding, key.seed, key.fingerprint) for key in finished}
    done |= {(*key[:3], "") for key in done}
    return [merged[key] for key in sorted(merged) if key not in done]
