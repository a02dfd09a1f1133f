"""Suites: the specification of a benchmark in YAML, and its fingerprint, a hash of everything that can change a number."""

import hashlib
import json
import math
import os
import re
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

import tasks as generators
from bench.plugins.references import absolute, parts, references_in
from tasks import Examples, Task, unknown

from .parts import MOST_BYTES, Block, Count, ModelSpec, Multiples, Rate, Recipe, Seed, Size, TaskSpec
from .yaml_config import EncodingName, Section, Unique, read_yaml, unique, validated, yaml_file, yaml_files

PROTOCOL = 3
"""Version of the arithmetic: increased by any change to model, training or evaluation that can change a number."""


class Suite(Section):
    """A benchmark: model, recipe, tasks, test lengths, seeds, and the encodings that run by default."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$")]
    version: Count
    about: str
    model: ModelSpec
    recipe: Recipe
    test_at: Multiples
    """Test lengths as multiples of L, rounded up; L itself is always tested. A task may have its own."""
    test_examples: Size
    """Number of test examples at each length."""
    test_seed: Seed
    seeds: Annotated[list[Seed], Field(min_length=1), Unique]
    encodings: Annotated[list[EncodingName], Field(min_length=1), Unique]
    tasks: Annotated[list[TaskSpec], Field(min_length=1)]
    score: Literal["exact", "bits"] = "exact"
    """What is ranked: exact match, or log-likelihood."""
    learning_rates: Annotated[list[Rate], Unique] = []
    """The learning rates that every encoding is trained with, in place of the recipe's. Empty: only that one."""
    blocks: list[Block] = []
    """Seed s has block s mod the number of blocks, so every encoding meets the same ones. Empty: all seeds are alike."""

    @model_validator(mode="after")
    def consistent(self) -> "Suite":
        unique([f"task {spec.task}" for spec in self.tasks])
        for spec in self.tasks:
            tokens = self.recipe_for(spec.task).batch * spec.train_length // 2  # at the least
            if (needed := self.model.step_bytes(tokens)) > MOST_BYTES:
                raise ValueError(f"{spec.task} needs {needed >> 30:,} GiB a step, more than any device has")
            lengths = self.test_lengths(spec.task)
            if not 1 <= lengths[0] <= spec.train_length < lengths[-1]:
                raise ValueError(f"{spec.task} needs test lengths from 1 to L = {spec.train_length} and past it, got {lengths}")
            for place in range(len(self.blocks)):
                self._at(place, None).recipe_for(spec.task)  # raises
            made = self.make_task(spec.task)
            if spec.source_sha256:
                from bench.plugins.loading import one_line_errors

                with one_line_errors(type(made)):
                    made.sample(np.array(lengths), len(lengths), np.random.default_rng(0))
        return self

    def spec(self, task: str) -> TaskSpec:
        """The suite's entry for one task.

        Raises:
            InputError: the suite has no such task.
        """
        for spec in self.tasks:
            if spec.task == task:
                return spec
        raise unknown(f"task of suite {self.name}", task, [s.task for s in self.tasks])

    def recipe_for(self, task: str) -> Recipe:
        """The recipe with the task's own changes."""
        return validated(Recipe, self.recipe.model_dump() | self.spec(task).recipe, f"tasks.{task}.recipe")

    def test_lengths(self, task: str) -> list[int]:
        """All test lengths of a task, ascending: in-distribution (l ≤ L) and out-of-distribution (l > L)."""
        spec = self.spec(task)
        # Rounded to nine places first: 1.1 · 10 is slightly above 11 in floating point and must not become 12.
        return sorted({math.ceil(round(x * spec.train_length, 9)) for x in [*(spec.test_at or self.test_at), 1]})

    @cached_property
    def encoding_names(self) -> list[str]:
        """The encodings by their full names, as in results: ``rope(base=500000)`` becomes ``rope(base=500000.0)``.

        Loads plugins, and encodings whose names have settings.
        """
        if all(name.isidentifier() for name in self.encodings):
            return self.encodings  # names without settings are full names; avoids importing torch
        from bench.plugins.registry import get_encoding

        return [get_encoding(name).info.name for name in self.encodings]

    def longest(self, task: str) -> int:
        return self.test_lengths(task)[-1]

    def make_task(self, task: str) -> Task:
        spec = self.spec(task)
        return generators.get(task, spec.variant, self.longest(task), **spec.settings)

    def test_sets(self, task: str, test_seed: int | None = None) -> dict[int, Examples]:
        """Length → test examples; they depend only on the suite, or on another seed."""
        generator, seed = self.make_task(task), self.test_seed if test_seed is None else test_seed
        return {n: generator.test_examples(n, self.test_examples, seed) for n in self.test_lengths(task)}

    @cache  # noqa: B019
    def data_hash(self, task: str, test_seed: int | None = None) -> str:
        """Hash of all test examples of a task."""
        return generators.content_hash(self.test_sets(task, test_seed).values())

    def at(self, seed: int, learning_rate: float | None) -> "Suite":
        """The suite with the recipe and the lengths of one seed's block and of one learning rate."""
        return self._at(seed % len(self.blocks) if self.blocks else 0, learning_rate)

    @cache  # noqa: B019 (a suite lives as long as the process)
    def _at(self, place: int, learning_rate: float | None) -> "Suite":
        block = self.blocks[place] if self.blocks else Block()
        specs = []
        for spec in self.tasks:
            own = self.recipe_for(spec.task)
            recipe: dict[str, float] = {"steps": round(own.steps * block.steps), "batch": round(own.batch * block.batch)}
            if learning_rate is not None:
                recipe["learning_rate"] = learning_rate
            length = max(1, round(spec.train_length * block.train_length))
            specs.append(spec.model_copy(update={"train_length": length, "recipe": spec.recipe | recipe}))
        return self.model_copy(update={"tasks": specs, "blocks": [], "learning_rates": []})

    def __hash__(self) -> int:
        return id(self)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of everything that can change a number of a run; excludes ``about`` and the lists of seeds and encodings."""
        content = self.model_dump(mode="json", exclude={"about", "seeds", "encodings", "learning_rates"})
        if not self.blocks:  # suites from before this field keep their fingerprint
            del content["blocks"]
        for spec in content["tasks"]:
            del spec["file"]
            if not spec["source_sha256"]:
                del spec["source_sha256"]
        content["protocol"] = PROTOCOL
        content["task_versions"] = {s.task: generators.find(s.task).version for s in self.tasks}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def shipped() -> dict[str, Path]:
    """Name → file of the suites included in the package."""
    return yaml_files("bench", "suites")


def load_suite(name: str) -> Suite:
    """Load a shipped suite by name, or a YAML file by path; paths of encodings and tasks in it are relative to the file.

    ``quick+my_task.py`` is suite ``quick`` with this task in place of its own; ``quick+my_task.py+copying`` has two.

    Raises:
        InputError: no such suite, not YAML, or not a valid suite.
    """
    start, own = name, list[str]()
    while (cut := split_task(start))[1]:
        start, own = cut[0], [absolute(cut[1], Path()), *own]
    if own:
        return with_tasks(load_suite(start), own)
    path = yaml_file(name, "suite", shipped())
    content = read_yaml(path, "suite", "name, model and tasks")
    if isinstance(names := content.get("encodings"), list):
        content["encodings"] = [absolute(name, path.parent) if isinstance(name, str) else name for name in names]
    for spec in specs if isinstance(specs := content.get("tasks"), list) else ():
        if isinstance(spec, dict) and isinstance(given := spec.get("task"), str):
            spec["task"] = absolute(given, path.parent)
    return validated(Suite, content, f"suite {path.name}")


def split_task(name: str) -> tuple[str, str]:
    """``quick+a.py+b.py`` → ``quick+a.py``, ``b.py``, which is empty if no task is added. Paths of files may contain ``+``."""
    if os.path.isfile(name) or os.path.isfile(parts(name)[0]):
        return name, ""
    ends = [name[match.end() :] for match in re.finditer(r"(?<=.)\+", name)]
    tasks = [end for end in ends if end.partition("(")[0].isidentifier() or references_in(end)]
    usable = [end for end in tasks if all(os.path.isfile(parts(file)[0]) for file in references_in(end))]
    task = (usable[-1:] or tasks[:1] or [""])[0]
    return name.removesuffix(f"+{task}"), task


def with_tasks(suite: Suite, tasks: Sequence[str]) -> Suite:
    """The suite with these tasks in place of its own; named ``quick-my_task``. Others than its own have the training length of
    its first."""
    known, length = {spec.task: spec for spec in suite.tasks}, suite.tasks[0].train_length
    made = [validated(TaskSpec, known.get(task, {"task": task, "train_length": length}), f"task {task}") for task in tasks]
    name = "-".join([suite.name, *(spec.task for spec in made)])
    changes = {"name": name, "about": f"Suite {suite.name} with other tasks."}
    return validated(Suite, suite.model_dump() | changes | {"tasks": [spec.model_dump() for spec in made]}, f"suite {name}")


def holding(suite: str, tasks: Sequence[str]) -> tuple[str, list[str]]:
    """A suite with the tasks that a user names, and their names: ``quick+my_task.py`` if ``quick`` lacks this one.

    Raises:
        InputError: a file that cannot be loaded.
    """
    own = [task for task in tasks if task not in generators.catalogue()]
    if not own:
        return suite, list(tasks)
    from bench.plugins.registry import get_task, is_task

    known = {spec.task for spec in load_suite(suite).tasks}
    own = [task for task in own if task not in known and (references_in(task) or is_task(task))]
    names = [get_task(task)[0].name if task in own else task for task in tasks]
    given = [name if name in known and "(" not in task else task for task, name in zip(tasks, names, strict=True)]
    return suite if not own or known.issuperset(given) else "+".join([suite, *given]), names
