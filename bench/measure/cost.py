"""The cost of an encoding: step time and peak memory by length, measured side by side with NoPE."""

import os
import time
from dataclasses import replace
from itertools import accumulate
from statistics import median_high

import torch
from jaxtyping import Int
from torch import Tensor

from bench.encodings import Encoding, Setup
from bench.encodings.nope import NoPE
from bench.runs.run_training import encoding_setup
from bench.suites.suite import Suite, load_suite
from bench.training.model import Decoder, build_decoder

from .card import COST_MULTIPLES, CostAt

COST_SUITE, COST_TASK = "small", "copying"
"""Suite and task that define model, batch size and L of the cost measurements."""


def cost_setup(multiple: int = 1) -> tuple[Suite, Setup]:
    """Return the suite of the cost measurements, and a setup with tables long enough for ``multiple`` times L."""
    suite = load_suite(COST_SUITE)
    setup = encoding_setup(suite, COST_TASK)
    return suite, replace(
        setup,
        longest_tokens=max(multiple * setup.train_tokens, setup.longest_tokens),
        longest_length=max(multiple * setup.train_length, setup.longest_length),
    )


def extra_parameters(cls: type[Encoding]) -> int:
    """Count the parameters that an encoding adds to the model of suite ``small`` on copying."""
    return sum(p.numel() for p in cls.make(cost_setup()[1]).parameters())


def measure_costs(cls: type[Encoding], multiples: tuple[int, ...] = COST_MULTIPLES, rounds: int = 5) -> list[CostAt]:
    """Measure step time and peak memory at multiples of L tokens. Steps alternate with NoPE's, to cancel drift."""
    suite, setup = cost_setup(max(multiples))
    models = [build_decoder(suite.model, c, setup, 0) for c in (cls, NoPE)]
    batch = suite.recipe_for(COST_TASK).batch
    costs = []
    for multiple in multiples:
        length = multiple * setup.train_tokens
        tokens = torch.randint(len(setup.symbols), (batch, length), generator=torch.Generator().manual_seed(0))
        times: list[list[float]] = [[], []]
        peaks = [peak_bytes(m, tokens) for m in models]  # also the warm-up
        for _ in range(rounds):
            for which, m in enumerate(models):
                start = time.perf_counter()
                train_step(m, tokens)
                times[which].append(time.perf_counter() - start)
        ours, plain = map(median_high, times)
        cost = CostAt(
            length=length,
            step_ms=ours * 1e3,
            step_ratio=1.0 if cls is NoPE else ours / plain,
            peak_mb=peaks[0] / 2**20,
            peak_ratio=peaks[0] / peaks[1],
        )
        costs.append(cost)
    return costs


def train_step(model: Decoder, tokens: Int[Tensor, "B T"]) -> None:
    """Run the forward and backward pass of one batch."""
    model.zero_grad(set_to_none=True)
    hidden = model(tokens, tokens.shape[1], torch.Generator().manual_seed(0))
    model.logits(hidden).logsumexp(-1).mean().backward()


def peak_bytes(model: Decoder, tokens: Int[Tensor, "B T"]) -> int:
    """Return the largest total size of the tensors allocated by one step, from the profiler's record of allocations."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # else the profiler prints its start and stop
    model.zero_grad(set_to_none=True)  # so that the step frees only what it allocated
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        train_step(model, tokens)
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    changes = (event.nbytes() for event in sorted(events, key=lambda e: e.start_ns()))
    return max(accumulate(changes, initial=0))
