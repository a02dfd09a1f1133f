"""``lprime submit``: write an encoding's source and description into a folder."""

import inspect
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from bench.encodings import Encoding, Wrapper
from bench.files import folder_atomic
from bench.plugins import registry
from bench.plugins.registry import get_encoding
from bench.plugins.source_hash import plugin_files
from bench.result import first_fault
from bench.runs.run_one import encoding_record
from bench.suites.suite import Suite
from leaderboard.results.file_names import page_name
from tasks import InputError

from .folder import LIMITS, RESULTS, SOURCE, SUBMISSION, Submission, read_submission


@dataclass(frozen=True)
class About:
    """Texts from the submitter; empty ones are taken from the encoding's ``info``."""

    authors: Sequence[str] = ()
    licence: str = "Apache-2.0"
    note: str = ""


def write_submission(
    reference: str, suite: Suite, to: Path, about: About | None = None, results: Path | None = None, replace: bool = False
) -> Path:
    """Write ``<to>/<name>/`` for an encoding, atomically.

    Arguments:
        results: a CSV file of the author's own results; it is shown and never used.
        replace: replace an existing submission of that name.

    Raises:
        InputError: the encoding is built in, or the folder exists; a name, text or file that the rules do not allow.
    """
    about = about or About()
    cls = get_encoding(reference)
    name, place = cls.info.name, to / page_name(cls.info.name)
    if place.exists() and not replace:
        raise InputError(f"{place} exists already; replace it with --replace, or choose another --to")
    plugin = find_plugin(cls)
    module = plugin.__module__
    file = Path(inspect.getfile(sys.modules[module])).resolve().relative_to(registry.source_of(module).root.resolve())
    try:
        submission = Submission(
            authors=list(about.authors) or [plugin.info.authors],
            licence=about.licence,
            note=about.note,
            suite=suite.name,
            encoding=encoding_record(cls),
            plugin=plugin.info.name,
            file=file.as_posix(),
            cls=plugin.__qualname__,
        )
    except ValidationError as error:
        raise InputError(f"{name} cannot be submitted: {first_fault(error)}") from None
    contents = {f"{SOURCE}/{path}": content for path, content in plugin_files(plugin).items()}
    contents[SUBMISSION] = (submission.model_dump_json(indent=1) + "\n").encode()
    if results is not None:
        contents[RESULTS] = table_of(results)
    with folder_atomic(place, replace) as folder:
        named = folder / place.name  # the reader compares the name of the folder
        named.mkdir()
        for path, content in contents.items():
            (named / path).parent.mkdir(parents=True, exist_ok=True)
            (named / path).write_bytes(content)
        try:
            read_submission(named)
        except InputError as error:
            raise InputError(f"{name} cannot be submitted: {str(error).removeprefix(f'{named}: ')}") from None
        for part in list(named.iterdir()):
            part.rename(folder / part.name)
        named.rmdir()
    return place


def table_of(path: Path) -> bytes:
    """The content of a table, which is UTF-8 text of limited size."""
    try:
        data = path.read_bytes()
        data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--results {path} is not a readable CSV file: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > LIMITS[RESULTS]:
        raise InputError(f"--results {path} has {len(data):,} bytes; expected at most {LIMITS[RESULTS]:,}")
    return data


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
