"""``lprime submit``: write an encoding's source and description into a folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from bench.files import folder_atomic
from bench.plugins.references import map_references, parts, references_in
from bench.plugins.registry import get_encoding, load_reference
from bench.plugins.source_hash import plugin_files
from bench.result import first_fault
from bench.runs.run_one import encoding_record
from bench.suites.suite import Suite
from leaderboard.results.file_names import page_name
from tasks import InputError

from .folder import RESULTS, SOURCE, SUBMISSION, Submission, read_submission


@dataclass(frozen=True)
class About:
    """Texts from the submitter; empty ones are taken from the encoding's ``info``."""

    authors: Sequence[str] = ()
    licence: str = "Apache-2.0"
    note: str = ""


def write_submission(reference: str, suite: Suite, to: Path, about: About | None = None, results: Path | None = None) -> Path:
    """Write ``<to>/<name>/`` for an encoding, atomically.

    Arguments:
        reference: a file, also with settings or inside a wrapper.
        results: a CSV file of the author's own results; it is shown and never used.

    Raises:
        InputError: the encoding is in no file, or the folder exists; a name, text or file that the rules do not allow.
    """
    about = about or About()
    cls, found = get_encoding(reference), references_in(reference)
    name, place = cls.info.name, to / page_name(cls.info.name)
    if len(found) != 1:
        raise InputError(f"expected one file of your own, such as my_encoding.py, got {reference!r}")
    if place.exists():
        raise InputError(f"{place} exists already; delete it, or choose another --to")
    plugin, file = load_reference(found[0]), Path(parts(found[0])[0]).resolve().name
    try:
        submission = Submission(
            authors=list(about.authors) or [plugin.info.authors],
            licence=about.licence,
            note=about.note,
            suite=suite.name,
            encoding=encoding_record(cls),
            reference=map_references(reference, lambda _: f"{file}:{plugin.__qualname__}"),
        )
        contents = {f"{SOURCE}/{path}": content for path, content in plugin_files(plugin).items()}
        contents[SUBMISSION] = (submission.model_dump_json(indent=1) + "\n").encode()
        if results is not None:
            contents[RESULTS] = results.read_bytes()
    except ValidationError as error:
        raise InputError(f"{name} cannot be submitted: {first_fault(error)}") from None
    except OSError as error:
        raise InputError(f"cannot read --results {results}: {error.strerror or error}") from None
    with folder_atomic(place) as folder:
        for path, content in contents.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        try:
            read_submission(folder)
        except InputError as error:
            raise InputError(f"{name} cannot be submitted: {str(error).removeprefix(f'{folder}: ')}") from None
    return place
