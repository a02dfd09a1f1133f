"""Outcomes of findings: the numbers that ``lprime reproduce`` measured, one record a finding. Verdicts follow from them."""

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import TypeAdapter

from bench.files import write_atomic
from bench.result import Record, reading

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


def published_outcomes(folder: Path) -> Path:
    """The file of outcomes of a published board."""
    return folder / "results" / OUTCOMES


def read_outcomes(path: Path) -> dict[str, Outcome]:
    """Finding → outcome; empty without the file.

    Raises:
        InputError: a broken file.
    """
    if not path.exists():
        return {}
    with reading(path, "does not hold outcomes of findings", "delete it to measure them again"):
        return TypeAdapter(dict[str, Outcome]).validate_json(path.read_bytes())


def write_outcomes(path: Path, outcomes: Mapping[str, Outcome]) -> None:
    """Write all outcomes, one finding per line, sorted by name.

    Raises:
        InputError: the file cannot be written.
    """
    rows = [f"{json.dumps(name)}: {outcomes[name].model_dump_json()}" for name in sorted(outcomes)]
    write_atomic(path, "{\n" + ",\n".join(rows) + "\n}\n")
