"""A published finding: its claim, what is run to test it, and what must be seen. Read from ``bench/findings/<name>.yaml``, such
as ``copying_past_l.yaml``.

Labels of numbers are encodings, with the key of the suite before them (``copying/nope``) if there are several suites, and the
key of the measure before that if there are several. A measure may also be a number that ``lprime probe`` measures, as in
``position_by_layer.yaml``.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from statistics import fmean
from typing import Annotated, Any

import numpy as np
from pydantic import Field, model_validator

from bench.probe.record import ProbeRecord
from bench.result import Record, Result
from bench.suites.suite import Suite, load_suite
from bench.suites.yaml_config import Section, read_yaml, validated, yaml_files
from tasks import unknown

from .reading import Measure, Reading

ALPHA = 0.025
"""One-sided level of every test, so that intervals of 95 % show the same."""
LEAST_SEEDS = 10
"""For outcomes of 0 and 1."""
Samples = dict[str, dict[int, float]]
"""Label → seed → number."""
OUTCOMES = "findings.json"
"""File of outcomes by finding: see ``bench.result.read_records``."""
NO_RULE = ("minutes", "tried", "why_not")
"""Fields that do not decide how numbers are judged."""


class Source(Section):
    """Where the finding was published."""

    paper: str
    link: Annotated[str, Field(pattern=r"^https://\S+$")]
    where: str
    """Table or file that holds the numbers."""
    second_hand: bool = False
    """The numbers were read elsewhere, not in the paper or its code."""
    setting: str
    numbers: dict[str, float] = {}
    """Label → published number, in ``Finding.unit``; empty if only an order was published."""
    chance: Annotated[float, Field(ge=0, lt=1)] = 0
    """Accuracy of guessing there, which ``published`` takes out of ``numbers``."""

    @property
    def published(self) -> dict[str, float]:
        """Label → published number without guessing, as ours are."""
        return {label: (number - self.chance) / (1 - self.chance) for label, number in self.numbers.items()}


class Plan(Section):
    """What was known when the rule was written, and what it promises."""

    of: str
    """Runs that are not judged: calibration seeds, or runs of an earlier rule."""
    numbers: dict[str, list[float]]
    """Label → numbers of these runs."""
    truth: dict[str, float] = {}
    """Label → mean that the claim implies, where none is published; otherwise the mean of ``numbers``."""
    spread: Annotated[float, Field(ge=0)] = 0
    """Standard deviation over seeds of labels with fewer than two numbers."""
    power: Annotated[float, Field(ge=0, le=1)]
    """Probability of a significant result if means are the published ones, or ``truth``, and vary as ``numbers`` do."""


class Expectation(Section):
    """One part of the claim: each of ``more`` is larger than each of ``than``."""

    more: list[str] | float
    """Each of these labels, or this number, is larger than …"""
    than: list[str] | float
    """… each of these, by their means over seeds, or than this number."""
    by: float = 0.0
    """Smallest difference that counts: a smaller one is no more than the direction, and a significantly smaller one refutes."""

    @model_validator(mode="after")
    def not_two_numbers(self) -> "Expectation":
        if not self.labels:
            raise ValueError("expected a label in `more` or `than`")
        return self

    @property
    def labels(self) -> list[str]:
        return [label for side in (self.more, self.than) if isinstance(side, list) for label in side]


class Finding(Section):
    """One finding. Everything but ``NO_RULE`` is its rule, which must be committed before its runs."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_]{0,63}$")]
    """The name of its file."""
    claim: str
    source: Source
    differences: Annotated[list[str], Field(min_length=1)]
    """How our setting differs from the published one."""
    minutes: Annotated[float, Field(gt=0)]
    """Minutes of one core for all its runs."""
    suites: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]
    """Key → what to change in the suite ``base``."""
    tasks: list[str] = []
    """Tasks of the suites that are run; empty: all."""
    measures: Annotated[dict[str, Measure | Reading], Field(min_length=1)]
    """Key → number read from the results of a seed, or from probes of its models."""
    best: dict[str, list[str]] = {}
    """Label → labels of which it is the best one: for each seed, the one with the largest mean over the other seeds."""
    unit: str
    """What the numbers are, for readers."""
    expect: Annotated[list[Expectation], Field(min_length=1)]
    tolerance: float = 0.0
    """Largest distance of a difference from the published one, if there are published numbers, for "reproduced"."""
    plan: Plan | None = None
    """None: nothing of it has been run."""
    why_not: Annotated[str, Field(pattern=r"^(\S+( \S+){0,7})?$")] = ""
    """Why it is not reproduced, in at most eight words."""
    tried: str = ""
    """What was tried where the finding is not reproduced, and what we believe."""

    @model_validator(mode="after")
    def consistent(self) -> "Finding":
        known = [*self.labels, *self.best]
        used = [label for one in self.expect for label in one.labels] + [one for group in self.best.values() for one in group]
        for label in [*used, *self.source.numbers, *(self.plan.numbers if self.plan else ())]:
            if label not in known:
                raise unknown("label", label, known)
        for suite in self.grids.values():
            if len(suite.learning_rates) > 1:
                raise ValueError(f"expected one of the learning rates of suite {suite.name}")
            if self.exact and len(suite.seeds) < LEAST_SEEDS:
                raise ValueError(f"expected at least {LEAST_SEEDS} seeds for outcomes of 0 and 1, got {len(suite.seeds)}")
        return self

    @property
    def exact(self) -> bool:
        """Whether each number is 0 or 1, and tests are exact."""
        return all(isinstance(one, Measure) and one.solved for one in self.measures.values())

    @cached_property
    def grids(self) -> dict[str, Suite]:
        """Key → suite whose runs are compared."""
        return {key: derived_suite(self.name, key, content) for key, content in self.suites.items()}

    @cached_property
    def labels(self) -> dict[str, tuple[str, str, str]]:
        """Label of numbers → key of ``measures``, key of the suite, encoding."""
        found = {}
        for measure in self.measures:
            for key, suite in self.grids.items():
                for name in suite.encoding_names:
                    parts = [measure] * (len(self.measures) > 1) + [key] * (len(self.grids) > 1) + [name]
                    found["/".join(parts)] = measure, key, name
        return found

    def tasks_of(self, suite: Suite) -> list[str]:
        """Tasks of a suite that are run."""
        return self.tasks or [spec.task for spec in suite.tasks]

    @cached_property
    def rule(self) -> str:
        """Hash of everything that decides the verdict."""
        content = self.model_dump(mode="json", exclude={*NO_RULE})
        content["fingerprints"] = {key: suite.fingerprint for key, suite in self.grids.items()}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def samples(self, found: Mapping[str, Sequence[Result | ProbeRecord]]) -> Samples:
        """The numbers of finished runs; seeds that lack a task or a value, or that a measure leaves out, are left out.

        Arguments:
            found: key of the suite → results of its runs, and records of their probes.
        """
        numbers: Samples = {}
        for label, (measure, key, encoding) in self.labels.items():
            tasks, number_of = self.tasks_of(self.grids[key]), self.measures[measure]
            for seed in self.grids[key].seeds:
                own: Any = [r for r in found[key] if r.seed == seed and r.task in tasks and number_of.reads(r, encoding)]
                if len(own) == len(tasks) and (number := number_of.of(own)) is not None:
                    numbers.setdefault(label, {})[seed] = number
        for label, members in self.best.items():
            rivals = [numbers.get(member, {}) for member in members]
            seeds, numbers[label] = set.intersection(*map(set, rivals)), {}
            for seed in seeds if len(seeds) > 1 else ():
                means = [fmean(one[other] for other in seeds - {seed}) for one in rivals]
                numbers[label][seed] = rivals[int(np.argmax(means))][seed]
        return numbers


def derived_suite(finding: str, key: str, content: Mapping[str, Any]) -> Suite:
    """The suite ``base`` with changes. If only encodings, seeds and rates change, its runs are the runs of ``base`` itself."""
    where = f"finding {finding}: suite {key}"
    changes = dict(content)
    base = load_suite(changes.pop("base", "small")).model_dump()
    for section in ("model", "recipe"):
        if section in changes:
            changes[section] = base[section] | changes[section]
    if not changes.keys() <= {"encodings", "seeds", "learning_rates"}:
        base |= {"learning_rates": [], "blocks": []}
        changes |= {"name": f"{finding}-{key}".replace("_", "-"), "version": changes.get("version", 1)}
    return validated(Suite, base | changes, where)


def shipped_findings() -> list[Finding]:
    """All findings, those of the fewest minutes first."""
    return sorted(map(load_finding, yaml_files("bench", "findings")), key=lambda finding: (finding.minutes, finding.name))


def load_finding(name: str) -> Finding:
    """Load a finding by name.

    Raises:
        InputError: no such finding, or a file that is not valid.
    """
    files = yaml_files("bench", "findings")
    if name not in files:
        raise unknown("finding", name, files)
    content = read_yaml(files[name], "finding", "claim, source and expect")
    return validated(Finding, {"name": name} | content, f"finding {name}")


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
