"""The parts of a suite: model, recipe, task, block."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from .yaml_config import Section

# Upper bounds are far beyond sensible values: they catch typos before these exhaust the memory.
Size = Annotated[int, Field(ge=1, le=2**16)]
Count = Annotated[int, Field(ge=1, le=2**31)]
MOST_SEED = 2**31 - 1
Seed = Annotated[int, Field(ge=0, le=MOST_SEED)]
Beta = Annotated[float, Field(ge=0, lt=1)]


Precision = Literal["fp32 on cpu, bf16 autocast on cuda", "fp32"]
"""Of training and evaluation; ``fp32`` is the same on every device, without TF32."""


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
    """One task of a suite: its variant, L, and its changes to the recipe (the same for every encoding)."""

    task: str
    variant: str
    train_length: Annotated[int, Field(ge=1, le=4096)]
    test_at: Multiples | None = None
    """Test lengths of this task as multiples of L; those of the suite by default."""
    settings: dict[str, Any] = {}
    """Of the task, such as the path of a corpus."""
    recipe: dict[str, Any] = {}


class Block(Section):
    """What the runs of one seed have in common: factors of the suite's training lengths, steps and batch."""

    train_length: Annotated[float, Field(gt=0, le=16)] = 1
    steps: Annotated[float, Field(gt=0, le=16)] = 1
    batch: Annotated[float, Field(gt=0, le=16)] = 1
