"""Measure the cost of an encoding side by side with NoPE, and make the cards that ``lprime publish`` stores."""

import os
import time
from collections.abc import Iterable
from itertools import accumulate
from statistics import median_high

import torch
from jaxtyping import Int
from torch import Tensor

from bench.encodings import At, Encoding, Setup
from bench.encodings.nope import NoPE
from bench.plugins.registry import get_encoding, is_built_in
from bench.plugins.source_hash import source_hash
from bench.runs.devices import current_commit, device_name, package_versions
from bench.runs.run import now
from bench.runs.run_training import encoding_setup
from bench.suites.suite import Suite, load_suite
from bench.training.model import Decoder, build_decoder, count_flops

from . import COST_MULTIPLES, Card, CostAt

COST_SUITE, COST_TASK = "small", "copying"
"""Suite and task that define model, batch size and L of the cost measurements."""
ROUNDS = 11
"""Steps timed at each length. On a machine with other load, the median of five can be off by a sixth."""
TOKENS = 32
"""Length of the text of equal tokens whose attention is measured."""


def cost_setup() -> tuple[Suite, Setup]:
    """Return the suite of the cost measurements, and a setup; the suite's tests are longer than all ``COST_MULTIPLES``."""
    suite = load_suite(COST_SUITE)
    return suite, encoding_setup(suite, COST_TASK)


def extra_parameters(cls: type[Encoding]) -> int:
    """Count the parameters that an encoding adds to the model of suite ``small`` on copying."""
    return sum(p.numel() for p in cls.make(cost_setup()[1]).parameters())


def measure_costs(cls: type[Encoding], multiples: Iterable[int] = COST_MULTIPLES, rounds: int = ROUNDS) -> list[CostAt]:
    """Measure step time and peak memory at multiples of L tokens. Steps alternate with NoPE's, to cancel drift."""
    suite, setup = cost_setup()
    models = [build_decoder(suite.model, c, setup, 0) for c in (cls, NoPE)]
    batch = suite.recipe_for(COST_TASK).batch
    costs = []
    for length in (multiple * setup.train_tokens for multiple in multiples):
        tokens = torch.randint(len(setup.symbols), (batch, length), generator=torch.Generator().manual_seed(0))
        times: list[list[float]] = [[], []]
        peaks = [peak_bytes(model, tokens) for model in models]  # also the warm-up
        for _ in range(rounds):
            for model, taken in zip(models, times, strict=True):
                start = time.perf_counter()
                train_step(model, tokens)
                taken.append(time.perf_counter() - start)
        ours, plain = map(median_high, times)
        cost = CostAt(
            length=length,
            step_ms=round(ours * 1e3, 3),
            step_ratio=1.0 if cls is NoPE else round(ours / plain, 3),
            peak_mb=round(peaks[0] / 2**20, 3),
            peak_ratio=round(peaks[0] / peaks[1], 3),
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


def measure_encoding(cls: type[Encoding], rounds: int = ROUNDS) -> Card:
    """Measure the cost of one encoding, with ``rounds`` timed steps at each length. From then on torch has one CPU thread."""
    torch.set_num_threads(1)
    suite, setup = cost_setup()
    flops, plain = (count_flops(build_decoder(suite.model, one, setup, 0)) for one in (cls, NoPE))
    cpu, wall = time.process_time(), time.perf_counter()
    costs = measure_costs(cls, rounds=rounds)
    cpu_share = (time.process_time() - cpu) / (time.perf_counter() - wall)
    return Card(
        costs=costs,
        flops_ratio=round(flops / plain, 3),
        suite=COST_SUITE,
        task=COST_TASK,
        source_sha256=source_hash(cls),
        versions=package_versions(),
        device=device_name(torch.device("cpu")),
        threads=1,
        commit=current_commit(),
        cpu_share=round(cpu_share, 3),
        finished=now(),
    )


@torch.inference_mode()
def attention_by_distance(cls: type[Encoding]) -> list[list[float]]:
    """Attention of the last of ``TOKENS`` equal tokens in the first layer, for each head, at distance 0, 1, ….

    It is read from the attention's output, with rows of the identity as values, so that it holds for encodings that compute
    their attention themselves too. What an encoding adds to all values (Shaw et al. 2018) is subtracted.
    """
    suite, setup = cost_setup()
    model = build_decoder(suite.model, cls, setup, 0).eval()
    attend, found = model.encoding.attend, list[Tensor]()

    def reading(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, at: At) -> Tensor:
        def last(values: Tensor) -> Tensor:
            return attend(q, k, values.expand_as(v), bias, at)[0, :, -1]

        if at.layer == 0:
            parts = torch.eye(TOKENS).split(v.shape[-1], dim=1)
            found.append(torch.cat([last(part) - last(torch.zeros_like(part)) for part in parts], -1).flip(-1))
        return attend(q, k, v, bias, at)

    vars(model.encoding)["attend"] = reading  # an instance's attribute has precedence over its class's method
    model(torch.zeros(1, TOKENS, dtype=torch.long), TOKENS, torch.Generator().manual_seed(0))
    return [[float(f"{1.00001 * weight:.3g}") for weight in head] for head in found[0].tolist()]  # no tie for noise to decide


def new_card(name: str, card: Card | None) -> Card | None:
    """Measure the costs of an encoding (seconds), if it is built in and ``card`` is None, of other source, or of another L."""
    if not is_built_in(name):
        return None  # the name in a result must not run code of a plugin
    cls, length = get_encoding(name), cost_setup()[1].train_tokens
    current = card and card.source_sha256 == source_hash(cls) and card.costs[0].length == length
    return None if current else measure_encoding(cls)
