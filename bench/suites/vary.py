"""Conditions of a suite: the suite with one thing changed, to see whether the order of the encodings depends on it.

A suite's section ``vary`` lists them, as factors, with the encodings and seeds that run under them::

    vary:
      encodings: [nope, t5, alibi, rope]
      seeds: [0, 1, 2]
      conditions:
        learning_rate: [x0.5, x2]
        steps: [x4]                  # the number of warm-up steps stays
        train_length: [x2]           # test lengths follow, as multiples of L

Each condition applies to all tasks, with their own values where they have some, and is a suite of its own with a name such as
``small-learning_rate-x2`` and a fingerprint of its own. It is not part of the fingerprint of the suite that it varies.
"""

import copy
from typing import Annotated, Any

from pydantic import Field, model_validator

from tasks import unknown

from .parts import Seed
from .yaml_config import EncodingName, Section, Unique

FIELDS = ("learning_rate", "steps", "batch", "weight_decay", "train_length")
"""What a condition can change."""
FRACTIONS = ("learning_rate", "weight_decay")
"""Those that need not be whole numbers."""
Factor = Annotated[str, Field(pattern=r"^x[0-9]{1,9}(\.[0-9]+)?$")]


class Vary(Section):
    """The conditions of a suite, and the encodings and seeds that run under each."""

    encodings: Annotated[list[EncodingName], Field(min_length=2, max_length=1000), Unique]
    seeds: Annotated[list[Seed], Field(min_length=1, max_length=1000), Unique]
    conditions: Annotated[dict[str, Annotated[list[Factor], Field(min_length=1, max_length=20), Unique]], Field(min_length=1)]

    @model_validator(mode="after")
    def known_fields(self) -> "Vary":
        for field in self.conditions:
            if field not in FIELDS:
                raise unknown("field in vary.conditions", field, FIELDS)
        return self


def derive(content: dict[str, Any], vary: Vary) -> dict[str, dict[str, Any]]:
    """Condition, such as ``learning_rate-x2`` → content of its suite.

    Arguments:
        content: of the suite that is varied.
    """
    return {
        f"{field}-{factor}": scaled(content, field, float(factor[1:]))
        | {
            "name": f"{content['name']}-{field}-{factor}",
            "condition": f"{field}-{factor}",
            "about": f"Suite {content['name']} with {field} {factor}.",
            "encodings": vary.encodings,
            "seeds": vary.seeds,
            "vary": None,
        }
        for field, factors in vary.conditions.items()
        for factor in factors
    }


def scaled(content: dict[str, Any], field: str, factor: float) -> dict[str, Any]:
    """A copy of a suite's content with one number multiplied wherever it is given."""
    content = copy.deepcopy(content)
    for section in (content["recipe"], *content["tasks"], *(task["recipe"] for task in content["tasks"])):
        if field in section:
            section[field] = section[field] * factor if field in FRACTIONS else round(section[field] * factor)
    return content
