"""Conditions of a suite: the suite with one thing changed, to see whether the order of the encodings depends on it.

A suite's section ``vary`` lists them, with the encodings and seeds that run under them::

    vary:
      encodings: [nope, t5, alibi, rope]
      seeds: [0, 1, 2]
      conditions:
        learning_rate: [x0.5, x2]    # a factor
        width: [128]                 # or a value; mlp_width follows in proportion
        steps: [x4]                  # the number of warm-up steps stays
        train_length: [x2]           # test lengths follow, as multiples of L

Each condition applies to all tasks, with their own values where they have some, and is a suite of its own with a name such as
``small-learning_rate-x2`` and a fingerprint of its own. It is not part of the fingerprint of the suite that it varies.
"""

import copy
import re
from typing import Annotated, Any

from pydantic import Field, model_validator

from tasks import unknown

from .parts import Seed
from .yaml_config import EncodingName, Section, Unique

RECIPE = ("learning_rate", "steps", "batch", "weight_decay")
MODEL = ("layers", "width")
FIELDS = (*RECIPE, *MODEL, "train_length")
"""What a condition can change."""
FRACTIONS = ("learning_rate", "weight_decay")
"""Those that need not be whole numbers."""
FACTOR = re.compile(r"x[0-9]{1,9}(\.[0-9]+)?")


class Vary(Section):
    """The conditions of a suite, and the encodings and seeds that run under each."""

    encodings: Annotated[list[EncodingName], Field(min_length=2, max_length=1000), Unique]
    seeds: Annotated[list[Seed], Field(min_length=1, max_length=1000), Unique]
    conditions: Annotated[
        dict[str, Annotated[list[int | float | str], Field(min_length=1, max_length=20), Unique]], Field(min_length=1)
    ]

    @model_validator(mode="after")
    def known_fields(self) -> "Vary":
        for field, values in self.conditions.items():
            if field not in FIELDS:
                raise unknown("field in vary.conditions", field, FIELDS)
            for value in values:
                if isinstance(value, str) and not FACTOR.fullmatch(value):
                    raise ValueError(f"conditions.{field}: expected a number, or a factor such as x2, got {value!r:.40}")
        return self


def derive(content: dict[str, Any], vary: Vary) -> dict[str, dict[str, Any]]:
    """Condition, such as ``learning_rate-x2`` → content of its suite.

    Arguments:
        content: of the suite that is varied.
    """
    suites = {}
    for field, values in vary.conditions.items():
        for value in values:
            condition = f"{field}-{value if isinstance(value, str) else f'{value:.12g}'}"
            suites[condition] = changed(content, field, value) | {
                "name": f"{content['name']}-{condition}",
                "condition": condition,
                "about": f"Suite {content['name']} with {field} {value}.",
                "encodings": vary.encodings,
                "seeds": vary.seeds,
                "vary": None,
            }
    return suites


def changed(content: dict[str, Any], field: str, value: float | str) -> dict[str, Any]:
    """A copy of a suite's content with one thing changed."""
    content = copy.deepcopy(content)
    model, tasks = content["model"], content["tasks"]
    before = model["width"]
    sections = [model] if field in MODEL else tasks
    if field in RECIPE:
        sections = [recipe for recipe in (content["recipe"], *(task["recipe"] for task in tasks)) if field in recipe]
    for section in sections:
        if isinstance(value, str):
            product = section[field] * float(value[1:])
            section[field] = product if field in FRACTIONS else round(product)
        else:
            section[field] = value
    model["mlp_width"] = round(model["mlp_width"] * model["width"] / before)
    return content
