"""The card of an encoding: which properties of an ideal encoding it has, and what it costs by length. All of it measured.

What is probed is the *code* of a position, as the rest of the model can meet it: what ``embed`` adds at that place, and the
attention that a fixed query pays to a fixed key there. Content is the same at every place, so whatever differs is the encoding.
"""

import math
import os
import time
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .encodings import At, Encoding, Setup
from .encodings.nope import NoPE
from .model import Decoder, Mask, build
from .suite import Suite, load_suite

COST_SUITE, COST_TASK = "small", "copying"
"""Whose model, batch and L costs are told for."""
POSITIONS = 96
"""Places whose codes are compared; the train length of the probe is a quarter of it."""
SAME = 1e-9
"""Codes closer than this (float64, unit scale) count as one."""


@dataclass(frozen=True)
class Properties:
    """What an ideal encoding would have (Zhao et al. 2024, *Length Extrapolation of Transformers: A Survey from the
    Perspective of Positional Encoding*), each measured on an untrained instance."""

    unique: bool
    """No two of the positions, seen from the end of the sequence, have the same code."""
    linear: bool
    """One linear map takes the code of every p to that of p + k (k = 3); or attention knows differences of positions alone."""
    defined_past_train: bool
    """Works, with finite numbers, at ten times the train length, and beyond the longest length it was made for."""
    deterministic: bool
    """Two passes with different generators give the same codes."""
    several_dimensions: bool
    """Codes follow the ids they are given, not the order of the sequence: each axis of a grid can have ids of its own."""


@dataclass(frozen=True)
class Cost:
    """A training step at one length, against NoPE's at the same length in the same run."""

    length: int
    """Tokens."""
    step_ms: float
    step_ratio: float
    peak_mb: float
    """Most memory that tensors of the step held at once."""
    peak_ratio: float


class Probe:
    """One encoding by itself, in float64, with fixed content."""

    def __init__(self, cls: type[Encoding], positions: int = POSITIONS, generator_seed: int = 0):
        self.positions, self.generator_seed = positions, generator_seed
        heads, head_width = 4, 8
        self.setup = Setup(
            layers=2, width=32, heads=heads, head_width=head_width, train_tokens=positions // 4, longest_tokens=2 * positions,
            symbols=("<pad>", "<bos>", "<sep>", "<eos>", "0", "1"), roles=("special",) * 4 + ("digit",) * 2,
        )  # fmt: skip
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.encoding = cls.make(self.setup).double().eval()
            # Parameters that start at a neutral value (zeros, say) would hide what the method can tell apart.
            for parameter in self.encoding.parameters():
                parameter.data += 0.1 * torch.randn_like(parameter)
            self.q, self.k = torch.randn(2, 1, heads, 1, head_width, dtype=torch.float64)
            self.h = torch.randn(1, 1, self.setup.width, dtype=torch.float64)

    def at(self, ids: Int[Tensor, " T"] | None, count: int) -> At:
        at = At(
            nominal=count,
            generator=torch.Generator().manual_seed(self.generator_seed),
            source=lambda: self.h.expand(1, count, -1),
        )
        tokens = torch.full((1, count), 4)
        at = replace(at, ids=self.encoding.positions(tokens, at) if ids is None else ids)
        return replace(at, shared=self.encoding.prepare(at))

    @torch.no_grad()
    def embedding(self, ids: Int[Tensor, " T"] | None = None, count: int | None = None) -> Float[Tensor, "T D"]:
        """What ``embed`` adds at each place of the first layer."""
        count = len(ids) if ids is not None else count or self.positions
        zero = torch.zeros(1, count, self.setup.width, dtype=torch.float64)
        return self.encoding.embed(zero, self.at(ids, count)).squeeze(0)

    @torch.no_grad()
    def attention(self, ids: Int[Tensor, " T"] | None = None, count: int | None = None) -> Float[Tensor, "H T"]:
        """Attention weights of the last query over all places, read off one-hot values."""
        count = len(ids) if ids is not None else count or self.positions
        width = self.setup.head_width
        at = self.at(ids, count)
        parts = []
        for start in range(0, count, width):
            v = torch.zeros(1, self.setup.heads, count, width, dtype=torch.float64)
            for channel in range(min(width, count - start)):
                v[:, :, start + channel, channel] = 1
            q, k = (x.expand(-1, -1, count, -1) for x in (self.q, self.k))
            q, k = self.encoding.rotate(q, k, at)
            bias = Mask(causal=True)(self.encoding.bias(q, k, at), q)
            parts.append(self.encoding.attend(q, k, v, bias, at)[0, :, -1])
        return torch.cat(parts, -1)[:, :count]

    def codes(self, ids: Int[Tensor, " T"] | None = None) -> Float[Tensor, "T F"]:
        """Everything that tells one place from another: embedding, and log-attention from the end."""
        seen = self.attention(ids).clamp(min=1e-300).log()
        return torch.cat([self.embedding(ids), seen.T], 1)


def properties(cls: type[Encoding]) -> Properties:
    """Measure the five properties of one encoding."""
    probe = Probe(cls)
    again = Probe(cls, generator_seed=1)
    return Properties(
        unique=all_differ(probe.codes()[:-1]),  # the query's own place is special to some, and no position
        linear=linear(probe),
        defined_past_train=finite_far_out(cls),
        deterministic=torch.equal(probe.codes(), again.codes()),
        several_dimensions=follows_ids(probe),
    )


def all_differ(codes: Float[Tensor, "T F"]) -> bool:
    gaps = torch.cdist(codes, codes, p=math.inf) + torch.eye(len(codes)) * 1e9
    return bool(gaps.min() > SAME)


def linear(probe: Probe) -> bool:
    """Is p ↦ p + 3 one linear map of the codes; or, without codes in the embedding, does attention know differences alone?"""
    codes = probe.embedding()
    if bool(codes.abs().max() > SAME):
        before, after = codes[:-3], codes[3:]
        # Found on even positions, held to on odd ones. Cut-off and tolerance leave room for tables kept in float32.
        found = torch.linalg.lstsq(before[::2], after[::2], rcond=1e-5, driver="gelsd").solution
        miss = before[1::2] @ found - after[1::2]
        return bool(miss.abs().max() < 1e-2 * codes.abs().max())
    ids = probe.at(None, probe.positions).positions
    if not bool((probe.attention().std(-1) > SAME).any()):
        return False  # no code at all
    same = probe.attention(ids), probe.attention(ids + 5)
    return bool((same[0] - same[1]).abs().max() < 1e-6) and follows_ids(probe)


def finite_far_out(cls: type[Encoding]) -> bool:
    probe = Probe(cls)
    count = 10 * probe.setup.train_tokens
    try:
        return bool(probe.embedding(count=count).isfinite().all() and probe.attention(count=count).isfinite().all())
    except (IndexError, ValueError, RuntimeError):
        return False


def follows_ids(probe: Probe) -> bool:
    """Do other ids give other codes?"""
    ids = probe.at(None, probe.positions).positions
    if ids.ndim > 1 or ids.is_floating_point():
        return False
    spread = ids.clone()
    spread[: probe.positions // 2] = ids[: probe.positions // 2].flip(0)
    return bool((probe.codes(ids) - probe.codes(spread)).abs().max() > SAME)


def cost_setup(multiple: int = 1) -> tuple[Suite, Setup]:
    """The suite and task that costs are told for, with tables long enough for ``multiple`` times L."""
    suite = load_suite(COST_SUITE)
    task, model = suite.make_task(COST_TASK), suite.model
    tokens = task.tokens(suite.spec(COST_TASK).train_length)
    return suite, Setup(
        model.layers, model.width, model.heads, model.width // model.heads, tokens,
        max(multiple * tokens, task.tokens(suite.longest(COST_TASK))), task.vocabulary.symbols, task.vocabulary.roles,
    )  # fmt: skip


def extra_parameters(cls: type[Encoding]) -> int:
    """Parameters that an encoding adds to the model of suite ``small`` on copying."""
    return sum(p.numel() for p in cls.make(cost_setup()[1]).parameters())


def costs(cls: type[Encoding], multiples: tuple[int, ...] = (1, 2, 4), rounds: int = 5) -> list[Cost]:
    """Step time and peak memory at L, 2L and 4L tokens of suite ``small``, ours and NoPE's in turns to cancel drift."""
    suite, setup = cost_setup(max(multiples))
    models = [build(suite.model, c, setup, 0) for c in (cls, NoPE)]
    batch = suite.recipe_for(COST_TASK).batch
    found = []
    for multiple in multiples:
        length = multiple * setup.train_tokens
        tokens = torch.randint(len(setup.symbols), (batch, length), generator=torch.Generator().manual_seed(0))
        times: list[list[float]] = [[], []]
        peaks = [peak_bytes(m, tokens) for m in models]  # also warms up
        for _ in range(rounds):
            for which, m in enumerate(models):
                start = time.perf_counter()
                step(m, tokens)
                times[which].append(time.perf_counter() - start)
        ours, plain = (sorted(t)[len(t) // 2] for t in times)
        found.append(Cost(length, ours * 1e3, ours / plain, peaks[0] / 2**20, peaks[0] / peaks[1]))
    return found


def step(model: Decoder, tokens: Int[Tensor, "B T"]) -> None:
    """Forward and backward of one batch."""
    model.zero_grad(set_to_none=True)
    hidden = model(tokens, tokens.shape[1], torch.Generator().manual_seed(0))
    model.logits(hidden).logsumexp(-1).mean().backward()


def peak_bytes(model: Decoder, tokens: Int[Tensor, "B T"]) -> int:
    """Most bytes that the tensors made by one step held at once, from the allocator's own record."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # the profiler would report its own start and stop on the terminal
    model.zero_grad(set_to_none=True)  # what is freed below was allocated below
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        step(model, tokens)
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most
