"""A published finding: its claim, what is run to test it, and what must be seen. Read from ``bench/findings/<name>.yaml``.

::

    claim: NoPE copies further past L than RoPE.
    source:
      paper: Kazemnejad et al. 2023, The Impact of Positional Encoding on Length Generalization in Transformers
      link: https://arxiv.org/abs/2305.19466
      where: results/classic.jsonl of their repository, exact match at 21 to 40
      setting: a decoder of 110 M parameters, L 20, tested to 40
      numbers: {nope: 0.305, rope: 0.011}
    differences: [three layers of width 64, L 16]
    minutes: 10                                  # of one core, for all its runs
    suites:                                      # runs of these suites, or code: see `code`
      copying:
        base: small                              # what is not given here is that of this suite
        encodings: [nope, rope]
        seeds: [0, 1, 2]
        tasks: [{task: copying, variant: repeat, train_length: 16}]
    measure: {score: exact, past: 1, to: 2}
    expect:
      - {more: [nope], than: [rope]}
    tolerance: 0.2

Labels of runs are encodings, with the key of the suite before them (``copying/nope``) if there are several suites.

A finding about the insides of trained models has ``probes`` instead of ``measure``, numbers that ``lprime probe`` measures.
Their keys come before the labels if there are several (``input/nope``)::

    probes:
      input: {probe: position, quantity: error, length: train, layers: [0], over: {quantity: chance, length: train}}

A finding that is no comparison of runs has ``code`` instead of ``suites``: a file next to the YAML with a function
``measure(seed)`` that returns a number for each label.
"""

import hashlib
import importlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field, model_validator

from bench.probe.record import ProbeRecord
from bench.result import Result
from bench.suites.suite import Suite, load_suite
from bench.suites.yaml_config import Section, read_yaml, validated, yaml_files
from tasks import unknown

from .reading import Measure, Reading

ALPHA = 0.025
"""One-sided level of every test, so that intervals of 95 % show the same."""
LEAST_POWER = 0.8
Samples = dict[str, dict[int, float]]
"""Label → seed → number."""
NO_RULE = ("minutes", "tried", "withdrawn", "objection")
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


class Expectation(Section):
    """One part of the claim: ``more`` with ``than``, ``same`` with ``within``, or ``at_most``."""

    more: list[str] | float = []
    """Each of these labels, or this number, is larger …"""
    than: list[str] | float = []
    """… than the mean of each of these, or than this number."""
    by: float = 0.0
    """Smallest difference that the claim is about."""
    same: list[str] = []
    """The mean of the first differs from the mean of the second …"""
    within: Annotated[float, Field(ge=0)] = 0.0
    """… by at most this."""
    at_most: dict[str, float] = {}
    """Label → bound that no seed exceeds."""

    @model_validator(mode="after")
    def one_kind(self) -> "Expectation":
        given = {name for name, field in type(self).model_fields.items() if getattr(self, name) != field.default} - {"by"}
        numbers = isinstance(self.more, float) and isinstance(self.than, float)
        if given not in ({"more", "than"}, {"same", "within"}, {"at_most"}) or numbers:
            raise ValueError("expected `more` with `than`, not two numbers, `same` with `within`, or `at_most`")
        if self.same and len(self.same) != 2:
            raise ValueError(f"`same` needs two labels, got {len(self.same)}")
        return self

    @property
    def labels(self) -> list[str]:
        parts = (self.more, self.than, self.same, [*self.at_most])
        return [label for part in parts if isinstance(part, list) for label in part]


class Planned(Section):
    """What a run of the rule can find out, from seeds that the finding does not use (100 and up)."""

    difference: float
    """Expected difference, beyond the rule's bound; 0 where all numbers are at the floor, the ceiling or the optimum."""
    spread: Annotated[float, Field(ge=0)]
    """Standard deviation over seeds."""
    seeds: Annotated[int, Field(ge=2)]
    source: str
    """Where both numbers come from, such as ``seeds 100 to 104``."""

    @property
    def power(self) -> float:
        """Probability that the t-test of two means finds the difference. Under ``LEAST_POWER``, the claim cannot be tested."""
        from scipy.stats import nct, t

        if self.spread == 0:
            return float(self.difference > 0)
        df, shift = 2 * self.seeds - 2, self.difference / (self.spread * (2 / self.seeds) ** 0.5)
        return float(nct.sf(t.ppf(1 - ALPHA, df), df, shift))


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
    suites: dict[str, dict[str, Any]] = {}
    """Key → what to change in the suite ``base``."""
    measure: Measure | None = None
    probes: dict[str, Reading] = {}
    """Key → number read from a probe of the runs."""
    code: str = ""
    """Module below ``bench.findings`` with a function ``measure(seed: int) -> dict[str, float]``."""
    seeds: list[int] = []
    """Seeds of ``code``."""
    unit: str
    """What the numbers are, for readers."""
    expect: Annotated[list[Expectation], Field(min_length=1)]
    tolerance: float = 0.0
    """Largest distance of a difference from the published one, if there are published numbers, for "reproduced"."""
    success: float | None = None
    """A seed succeeds if its number is at least this; seeds that succeed are counted, and counts compared by exact tests."""
    planned: Planned | None = None
    """Power, computed before the runs."""
    withdrawn: str = ""
    """Why the verdict is withdrawn until another rule has been run."""
    objection: str = ""
    """What the authors would object to, on one line."""
    tried: str = ""
    """What was tried where the finding is not reproduced, and what we believe."""

    @model_validator(mode="after")
    def consistent(self) -> "Finding":
        given = {name for name in ("suites", "measure", "probes", "code", "seeds") if getattr(self, name)}
        if given not in ({"suites", "measure"}, {"suites", "probes"}, {"code", "seeds"}):
            raise ValueError("expected `suites` with `measure` or `probes`, or `code` with `seeds`")
        if self.suites:
            for label in [*(label for one in self.expect for label in one.labels), *self.source.numbers]:
                if label not in self.labels:
                    raise unknown("label", label, self.labels)
        return self

    @cached_property
    def grids(self) -> dict[str, Suite]:
        """Key → suite whose runs are compared."""
        return {key: derived_suite(self.name, key, content) for key, content in self.suites.items()}

    @cached_property
    def labels(self) -> dict[str, tuple[str, str, str]]:
        """Label of runs → key of ``probes`` or "", key of the suite, encoding."""
        found = {}
        for probe in self.probes or [""]:
            for key, suite in self.grids.items():
                for name in suite.encoding_names:
                    parts = [probe] * (len(self.probes) > 1) + [key] * (len(self.grids) > 1) + [name]
                    found["/".join(parts)] = probe, key, name
        return found

    def tasks(self, suite: Suite) -> list[str]:
        """Tasks of a suite that are measured."""
        return (self.measure and self.measure.tasks) or [spec.task for spec in suite.tasks]

    @cached_property
    def rule(self) -> str:
        """Hash of everything that decides the verdict."""
        later = {name for name in ("probes", "success", "planned") if not getattr(self, name)}  # older rules keep their hash
        content = self.model_dump(mode="json", exclude=set(NO_RULE) | later)
        if self.measure and not self.measure.above_chance:
            del content["measure"]["above_chance"]
        content["fingerprints"] = {key: suite.fingerprint for key, suite in self.grids.items()}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def samples(self, found: Mapping[str, Sequence[Result] | Sequence[ProbeRecord]]) -> Samples:
        """The numbers of finished runs; seeds that lack a task or, for probes, a value are left out.

        Arguments:
            found: key of the suite → results of its runs, or the records of their probes for a finding about probes.
        """
        numbers: Samples = {}
        for label, (probe, key, encoding) in self.labels.items():
            tasks = self.tasks(self.grids[key])
            reading: Any = self.probes.get(probe) or self.measure
            for seed in self.grids[key].seeds:
                own = [r for r in found[key] if r.seed == seed and r.task in tasks and reading.reads(r, encoding)]
                if len(own) == len(tasks) and (number := reading.of(own)) is not None:
                    numbers.setdefault(label, {})[seed] = number
        return numbers

    def compute(self) -> Samples:
        """Run the finding's own code for each seed."""
        measure = importlib.import_module(f"bench.findings.{self.code}").measure
        by_seed = {seed: measure(seed) for seed in self.seeds}
        return {label: {seed: by_seed[seed][label] for seed in self.seeds} for label in by_seed[self.seeds[0]]}


def derived_suite(finding: str, key: str, content: Mapping[str, Any]) -> Suite:
    """The suite ``base`` with changes. If only encodings and seeds change, its runs are those of ``base`` itself."""
    where = f"finding {finding}: suite {key}"
    changes = dict(content)
    base = load_suite(changes.pop("base", "small")).model_dump()
    for section in ("model", "recipe"):
        if section in changes:
            changes[section] = base[section] | changes[section]
    if not changes.keys() <= {"encodings", "seeds"}:
        base |= {"learning_rates": [], "blocks": []}
        changes |= {"name": f"{finding}-{key}".replace("_", "-"), "version": changes.get("version", 1), "vary": None}
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
