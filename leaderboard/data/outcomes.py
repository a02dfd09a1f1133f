"""Outcomes of findings: the numbers that ``lprime reproduce`` measured, one record a finding. Verdicts follow from them."""

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from bench.result import Record, first_fault
from tasks import InputError

from .store import RESULTS, read_file, write_if_changed

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
    if not path.exists():
        return {}
    try:
        return {name: Outcome.model_validate(one) for name, one in sorted(json.loads(read_file(path)).items())}
    except (ValueError, AttributeError) as error:  # pydantic's ValidationError is a ValueError
        fault = first_fault(error) if isinstance(error, ValidationError) else "not JSON"
        raise InputError(f"{path} does not hold outcomes of findings ({fault}); delete it to measure them again") from error


def write_outcomes(path: Path, outcomes: Mapping[str, Outcome]) -> None:
    """Write all outcomes, one finding per line, sorted by name.

    Raises:
        InputError: the file cannot be written.
    """
    rows = [f"{json.dumps(name)}: {outcomes[name].model_dump_json()}" for name in sorted(outcomes)]
    write_if_changed(path, "{\n" + ",\n".join(rows) + "\n}\n")


def published_outcomes(folder: Path) -> Path:
    """The file of outcomes of a published board."""
    return folder / RESULTS / OUTCOMES
