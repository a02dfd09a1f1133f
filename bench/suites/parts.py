"""The parts of a suite: model, recipe, task and block."""

from numbers import Real
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from tasks import InputError, catalogue

from .yaml_config import Section

# Upper bounds are far beyond sensible values: they catch typos before these exhaust the memory.
Size = Annotated[int, Field(ge=1, le=2**16)]
Count = Annotated[int, Field(ge=1, le=2**31)]
MOST_BYTES = 2**38
"""Memory of a training step, above that of any device."""
MOST_SEED = 2**31 - 1
Seed = Annotated[int, Field(ge=0, le=MOST_SEED)]
Beta = Annotated[float, Field(ge=0, lt=1)]


Precision = Literal["fp32 on cpu, bf16 autocast on cuda", "fp32"]
"""Of training and evaluation; ``fp32`` is the same on every device, without TF32."""


def check_rate(rate: float) -> float:
    """The learning rate; raises ``InputError`` unless folders of runs can name it, with six digits."""
    if not (isinstance(rate, Real) and 0 < rate < 1e9 and float(f"{rate:g}") == rate):
        raise InputError(f"a learning rate must be a positive number of at most six digits, got {rate!r}")
    return rate


Rate = Annotated[float, AfterValidator(check_rate)]
Multiples = Annotated[list[Annotated[float, Field(gt=0, le=100)]], Field(min_length=1)]
"""Test lengths as multiples of L."""


class ModelSpec(Section):
    """The decoder, the same for every encoding. Fields with one valid value document choices that affect every number."""

    layers: Size
    width: Size
    heads: Size
    mlp_width: Size
    norm: Literal["pre-layernorm"]
    activation: Literal["gelu"]
    score_scale: Literal["1/sqrt(d)"]
    dropout: Literal[0]
    init: Literal["fan-in normal"]

    @model_validator(mode="after")
    def heads_divide_width(self) -> "ModelSpec":
        if self.width % (2 * self.heads):
            raise ValueError(f"width must be a multiple of 2 × heads, got width {self.width} and heads {self.heads}")
        return self

    def step_bytes(self, tokens: int) -> int:
        """The least memory of a training step: 16 bytes a weight (with gradient and optimizer), 4 a number kept of a token."""
        weights, kept = (wide * self.width + 2 * self.mlp_width for wide in (4, 8))
        return self.layers * (16 * self.width * weights + 4 * tokens * kept)


class Recipe(Section):
    """Training hyperparameters, the same for every encoding."""

    optimizer: Literal["adamw"]
    steps: Count
    batch: Size
    """Examples per step."""
    learning_rate: Annotated[float, Field(gt=0)]
    warmup_steps: Annotated[int, Field(ge=0)]
    schedule: Literal["cosine to zero"]
    betas: Annotated[list[Beta], Field(min_length=2, max_length=2)]
    weight_decay: Annotated[float, Field(ge=0)]
    """Of the matrices of the layers and the head; not of token embeddings, norms or the encoding's parameters."""
    clip_norm: Annotated[float, Field(gt=0)]
    lengths: Literal["uniform 1..L", "L"]
    precision: Precision


class TaskSpec(Section):
    """One task of a suite: its variant (or its first), L, and its changes to the recipe (the same for every encoding)."""

    task: str
    """Its name; a file, or a name with settings, is replaced by it."""
    variant: str
    train_length: Annotated[int, Field(ge=1, le=4096)]
    test_at: Multiples | None = None
    """Test lengths of this task as multiples of L; those of the suite by default."""
    settings: dict[str, Any] = {}
    """Of the task, such as the path of a corpus."""
    recipe: dict[str, Any] = {}
    file: str = ""
    """File and class of a task that is not built in and not of an installed package."""
    source_sha256: str = ""
    """Hash of the source of a task that is not built in; part of the fingerprint."""

    @model_validator(mode="before")
    @classmethod
    def find_task(cls, content: Any) -> Any:
        """Load a task that is not built in, and replace its reference by its name."""
        given = isinstance(content, dict) and (content.get("file") or content.get("task"))
        if not isinstance(given, str):
            return content
        if given in catalogue():
            return {"variant": next(iter(catalogue()[given].variants))} | content
        from bench.plugins import registry  # loads torch
        from bench.plugins.source_hash import source_hash

        task, settings = registry.get_task(given)
        found = {"task": task.name, "variant": next(iter(task.variants)), "settings": settings}
        if plugin := registry.loaded.get(task.name):
            asked = content.get("source_sha256")  # a run is of the source that was asked for, and is refused if it has changed
            found |= {"file": plugin.reference or "", "source_sha256": asked or source_hash(task)}
        kept = {key: value for key, value in content.items() if key not in ("task", "file", "source_sha256")}
        return found | kept | ({"settings": settings | kept["settings"]} if isinstance(kept.get("settings"), dict) else {})


class Block(Section):
    """What the runs of one seed have in common: factors of the suite's training lengths, steps and batch."""

    train_length: Annotated[float, Field(gt=0, le=16)] = 1
    steps: Annotated[float, Field(gt=0, le=16)] = 1
    batch: Annotated[float, Field(gt=0, le=16)] = 1
