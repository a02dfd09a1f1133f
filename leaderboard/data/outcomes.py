"""Outcomes of findings: the numbers that ``lprime reproduce`` measured, one record a finding. Verdicts follow from them."""

from collections.abc import Mapping
from pathlib import Path

from bench.result import Record

from .record_files import read_by_name, write_by_name
from .store import RESULTS

OUTCOMES = "findings.json"


class Outcome(Record):
    """What was measured for one finding."""

    rule: str
    """``Finding.rule`` at the time: an outcome of another rule is not judged."""
    samples: dict[str, dict[int, float]]
    """Label → seed → number."""
    minutes: float
    """Minutes of one core that the runs took."""
    finished: str
    """ISO 8601, UTC."""
    commit: str | None
    versions: dict[str, str]


def read_outcomes(path: Path) -> dict[str, Outcome]:
    """Finding → outcome; empty without the file.

    Raises:
        InputError: a broken file.
    """
    return read_by_name(path, Outcome, "does not hold outcomes of findings", "delete it to measure them again")


def write_outcomes(path: Path, outcomes: Mapping[str, Outcome]) -> None:
    """Write all outcomes, one finding per line, sorted by name.

    Raises:
        InputError: the file cannot be written.
    """
    write_by_name(path, outcomes)


def published_outcomes(folder: Path) -> Path:
    """The file of outcomes of a published board."""
    return folder / RESULTS / OUTCOMES
