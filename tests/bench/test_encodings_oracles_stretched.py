"""Oracles of RoPE with other frequencies, and of its stretched variants: transformers."""

import math
from dataclasses import replace

import pytest
import torch
from helpers import (
    NAMES,
    assert_same,
    context,
    make_encoding,
    oracle,
    qkv,
    random_tokens,
    tiny_model,
)
from torch import Tensor
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama import modeling_llama

from bench.encodings import At
from bench.encodings.interpolation import stretch_factor
from bench.encodings.rope import scaled_base

TRAIN = 12
"""L in tokens of every encoding made here."""


# --- frequencies of transformers


def theirs(kind: str, width: int, seq_len: int | None = None, base: float = 1e4, **parameters: float) -> tuple[Tensor, float]:
    """θ_t and the factor of cos and sin from transformers, in float32."""
    rope_parameters = {"rope_type": kind, "rope_theta": base, **parameters}
    length = int(parameters.get("original_max_position_embeddings", TRAIN))
    config = LlamaConfig(
        hidden_size=2 * width,
        num_attention_heads=2,
        head_dim=width,
        max_position_embeddings=length,
        rope_parameters=rope_parameters,
    )
    return ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"), seq_len=seq_len)


def half_turning(length: int) -> float:
    """The base for which pair t = d/4, of angle base^(−1/2) a token, makes one turn over the length."""
    turn = 2 * math.pi / length
    return turn**-2


# Encoding → frequencies of transformers, from head width, L, L′ and N.
PUBLISHED = {
    "interpolated(rope)": lambda d, L, M, N: theirs("linear", d, factor=max(1, N / L)),
    "interpolated(rope,fixed=True)": lambda d, L, M, N: theirs("linear", d, factor=M / L if N > L else 1.0),
    "ntk": lambda d, L, M, N: theirs("dynamic", d, M if N > L else L, factor=1.0, original_max_position_embeddings=L),
    "ntk_dynamic": lambda d, L, M, N: theirs("dynamic", d, N, factor=1.0, original_max_position_embeddings=L),
    "yarn": lambda d, L, M, N: theirs("yarn", d, factor=M / L if N > L else 1.0, original_max_position_embeddings=L),
    "yarn_dynamic": lambda d, L, M, N: theirs("yarn", d, factor=max(1, N / L), original_max_position_embeddings=L),
    "rope_scaled": lambda d, L, M, N: theirs("linear", d, base=half_turning(L), factor=1.0),
    "interpolated(rope_scaled)": lambda d, L, M, N: theirs("linear", d, base=half_turning(L), factor=max(1, N / L)),
    "ntk_scaled": lambda d, L, M, N: theirs(
        "dynamic", d, M if N > L else L, base=half_turning(L), factor=1.0, original_max_position_embeddings=L
    ),
    "yarn_scaled": lambda d, L, M, N: theirs(
        "yarn", d, base=half_turning(L), factor=M / L if N > L else 1.0, original_max_position_embeddings=L
    ),
    "p_rope": lambda d, L, M, N: theirs("proportional", d, partial_rotary_factor=0.75),
    "p_rope(p=0.3)": lambda d, L, M, N: theirs("proportional", d, partial_rotary_factor=0.3),
    "p_rope(p=0.25)": lambda d, L, M, N: theirs("proportional", d, partial_rotary_factor=0.25),
    "p_rope(p=1.0)": lambda d, L, M, N: theirs("proportional", d, partial_rotary_factor=1.0),
}
PUBLISHED["finetuned(rope)"] = lambda d, L, M, N: theirs("linear", d, factor=1.0)
PUBLISHED |= {f"finetuned({name})": PUBLISHED[name] for name in ("yarn", "interpolated(rope,fixed=True)")}


@oracle(*(name for name in PUBLISHED if name in NAMES), against="transformers ROPE_INIT_FUNCTIONS and apply_rotary_pos_emb")
@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize(
    ("width", "L", "M", "N"), [(8, 12, 120, 9), (8, 12, 120, 40), (16, 23, 115, 115), (64, 2048, 8192, 3000)]
)
def test_rotation_equals_transformers(name, width, L, M, N):
    encoding = make_encoding(name, 3, width, train_tokens=L, longest_tokens=M)
    q, k, _ = qkv(3, 40, head_width=width)
    theta, m = PUBLISHED[name](width, L, M, N)
    angles = torch.arange(40)[None, :, None] * theta.double()
    cos, sin = (m * torch.cat([x, x], -1) for x in (angles.cos(), angles.sin()))
    expected = modeling_llama.apply_rotary_pos_emb(q, k, cos, sin)
    ours = encoding.rotate(q, k, context(encoding, 40, N))
    assert_same(torch.stack(ours), torch.stack(expected), [q, k], atol=3e-5)


# --- frequency rules


def test_ntk_of_a_single_pair_is_rope():
    ours, plain = (make_encoding(name, 3, 2).prepare(At(60, ids=torch.arange(60))) for name in ("ntk", "rope"))
    assert all(map(torch.equal, ours, plain))


def test_stretch_factor():
    setup = make_encoding("yarn", 1, train_tokens=20, longest_tokens=100).setup
    assert [stretch_factor(setup, At(n), dynamic=True) for n in (1, 20, 21, 50, 100, 400)] == [1, 1, 1.05, 2.5, 5, 20]
    assert [stretch_factor(setup, At(n), dynamic=False) for n in (1, 20, 21, 50, 100, 400)] == [1, 1, 5, 5, 5, 5]
    assert stretch_factor(replace(setup, longest_tokens=15), At(30), dynamic=False) == 1, "never less than 1"


def test_half_of_the_pairs_of_rope_scaled_turn_within_the_training_length():
    for length in (9, 12, 23, 64, 512, 2048):
        for width in (8, 16, 64):
            turns = make_encoding("rope_scaled", 1, width, train_tokens=length).thetas(At(1)) * length / (2 * math.pi)
            assert turns[width // 4] == pytest.approx(1)
            assert (turns > 1 + 1e-9).sum() == width // 4
    assert [round(scaled_base(length), 1) for length in (1, 8, 23, 512)] == [2, 2, 13.4, 6640.2]
    published = make_encoding("rope", 1, 64).thetas(At(1)) * 512 / (2 * math.pi)
    assert (published >= 1).sum() == 16, "RoFormer, L = 512: half of the 32 pairs"


STRETCHED = ["interpolated(rope)", "ntk", "ntk_dynamic", "yarn", "yarn_dynamic", "finetuned(yarn)"]
STRETCHED_SCALED = ["interpolated(rope_scaled)", "ntk_scaled", "yarn_scaled"]


@pytest.mark.parametrize(
    ("name", "unstretched"), [(n, "rope") for n in STRETCHED] + [(n, "rope_scaled") for n in STRETCHED_SCALED]
)
def test_stretched_encodings_are_rope_bit_for_bit_up_to_the_training_length(name, unstretched):
    plain = tiny_model(unstretched)
    model = tiny_model(name)
    model.load_state_dict(plain.state_dict())
    tokens = random_tokens(2, TRAIN)
    for announced_length in (3, TRAIN):
        assert torch.equal(model(tokens, announced_length), plain(tokens, announced_length))
    assert not torch.allclose(model(tokens, TRAIN + 10), plain(tokens, TRAIN + 10), atol=1e-3)
