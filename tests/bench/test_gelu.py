"""GELU in parts: the same bits as torch's, and few compiled kernels."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from bench.training.gelu import MOST_SIZES, STEP, gelu, parts

FULL = set(range(10**6, 10**6 + MOST_SIZES))
"""Sizes after which every number of rows is passed in parts."""


@pytest.mark.parametrize("count", [0, 1, STEP - 1, STEP, STEP + 1, 777, 1536, 3001])
@pytest.mark.parametrize("width", [32, 256])
def test_values_and_gradients_are_those_of_torch_bit_for_bit(count, width):
    source = torch.Generator().manual_seed(count)
    x, gradient = (3 * torch.randn(count, width, generator=source) for _ in range(2))
    plain, ours = (x.clone().requires_grad_() for _ in range(2))
    expected, out = F.gelu(plain), gelu(ours, set(FULL))
    expected.backward(gradient)
    out.backward(gradient)
    assert torch.equal(out, expected)
    assert torch.equal(ours.grad, plain.grad)
    with torch.inference_mode():
        assert torch.equal(gelu(x, set(FULL)), expected)


def test_parts_cover_all_rows_and_have_few_sizes():
    counts = range(STEP, 5000)
    for count in counts:
        first, last = parts(count)
        assert first.start == 0 and last.stop == count and 0 <= last.start <= first.stop
        assert 0 <= first.stop + (last.stop - last.start) - count < STEP
    assert len({parts(count)[0].stop for count in counts}) <= len(counts) / STEP + 2


RAGGED_STEPS = """
from support import suite_dict
from bench.speed.trainee import Trainee, training_batch
from bench.suites.suite import Suite, validated
from bench.training import gelu
gelu.MOST_SIZES = 4
tasks = [{"task": "copying", "variant": "unique", "train_length": 50}]
suite = validated(Suite, suite_dict(tasks=tasks), "suite")
trainee, rows = Trainee(suite, "copying", "nope"), set()
for step in range(40):
    examples = training_batch(suite, "copying", 16, step)
    rows.add(int(examples.sizes.sum()))
    trainee.step(examples)
print("rows", len(rows))
"""


def test_ragged_steps_compile_few_kernels():
    """A kernel was kept for every number of rows, which made the memory of a training process grow."""
    environment = os.environ | {"ONEDNN_VERBOSE": "profile_create", "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", RAGGED_STEPS], capture_output=True, text=True, check=True, env=environment
    ).stdout.splitlines()
    created = [line for line in done if "create:cache_miss" in line]
    (rows,) = [int(line.split()[1]) for line in done if line.startswith("rows")]
    assert rows > 30
    assert 0 < len(created) < rows, f"{len(created)} kernels for {rows} numbers of rows"
