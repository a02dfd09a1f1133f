"""Runs that are interrupted and resumed end bit for bit the same; unusable checkpoints count as none."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from helpers import recipe_of, task_model

import tasks
from bench.encodings.nope import NoPE
from bench.runs.checkpoint import load_checkpoint, save_checkpoint
from bench.runs.run import CHECKPOINT
from bench.training.model import Decoder
from bench.training.optimizer import AdamW
from bench.training.train import Stopped, TrainingState, train

LENGTH = 5
TASK = tasks.get("copying", "repeat", 2 * LENGTH)
RECIPE = recipe_of(steps=45)


class RandomBias(NoPE):
    """Adds noise to the scores during training: random numbers must be the same after an interruption too."""

    info = replace(NoPE.info, name="test random bias", random=True)

    def bias(self, q, k, at):
        noise = torch.randn(q.shape[2], q.shape[2], generator=at.generator)
        return noise if self.training else torch.zeros_like(noise)


def fresh(encoding="t5") -> tuple[Decoder, AdamW]:
    model = task_model(encoding, TASK, LENGTH, seed=1, layers=1)
    return model, AdamW(model, RECIPE)


def finish(model, optimizer, state, after_step=lambda state: None) -> None:
    train(model, optimizer, TASK, LENGTH, RECIPE, 6, state, after_step)


def stop_at(step: int, folder: Path, model: Decoder, optimizer: AdamW, state: TrainingState) -> None:
    """Train to a step, save a checkpoint there and stop."""

    def after_step(state):
        if state.step == step:
            save_checkpoint(folder, model, optimizer, state, "run")
            raise Stopped

    with pytest.raises(Stopped):
        finish(model, optimizer, state, after_step)


def interrupted(folder: Path, encoding, stops: list[int]) -> tuple[Decoder, TrainingState]:
    """A run that is interrupted after the given steps, and resumed with a new model each time."""
    for stop in stops:
        model, optimizer = fresh(encoding)
        stop_at(stop, folder, model, optimizer, load_checkpoint(folder, model, optimizer, "run") or TrainingState())
    model, optimizer = fresh(encoding)
    state = load_checkpoint(folder, model, optimizer, "run")
    assert state is not None
    finish(model, optimizer, state)
    return model, state


def assert_equal_runs(model: Decoder, state: TrainingState, other: Decoder, other_state: TrainingState) -> None:
    weights, others = model.state_dict(), other.state_dict()
    assert weights.keys() == others.keys()
    assert all(torch.equal(weights[key], others[key]) for key in weights)
    timings = {"step_ms": [], "train_s": 0.0, "total_s": 0.0}
    assert replace(state, **timings) == replace(other_state, **timings)


@pytest.fixture(scope="module")
def uninterrupted() -> dict:
    runs = {}
    for encoding in ("nope", "t5", RandomBias):
        model, optimizer = fresh(encoding)
        state = TrainingState()
        finish(model, optimizer, state)
        runs[encoding] = model, state
    return runs


@pytest.fixture
def saved(tmp_path) -> Path:
    """The checkpoint of a run after nine steps."""
    stop_at(9, tmp_path, *fresh(), TrainingState())
    return tmp_path / CHECKPOINT


# --- resume


@pytest.mark.parametrize(
    ("encoding", "stops"),
    [
        *(("t5", [stop]) for stop in (1, 2, 6, 31, 45)),
        *((encoding, [7, 8, 20]) for encoding in ("nope", "t5", RandomBias)),
    ],
)
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(uninterrupted, encoding, stops, tmp_path):
    assert_equal_runs(*interrupted(tmp_path, encoding, stops), *uninterrupted[encoding])


# --- checkpoints that cannot be used


def read_parts(path: Path) -> tuple[dict, bytes]:
    """Header and tensors of a safetensors file: eight bytes of size, JSON, data."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def write_parts(path: Path, header: dict, data: bytes) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def truncate(share: float):
    return lambda path: path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])


def rename_tensor(old: str, new: str):
    """As by a flipped bit in the header."""

    def damage(path: Path) -> None:
        header, data = read_parts(path)
        assert old in header
        write_parts(path, {new if key == old else key: value for key, value in header.items()}, data)

    return damage


def change_metadata(**changes: object):
    def damage(path: Path) -> None:
        header, data = read_parts(path)
        header["__metadata__"] |= {key: json.dumps(value) for key, value in changes.items()}
        write_parts(path, header, data)

    return damage


DAMAGES = {
    "empty": truncate(0),
    "cut in the middle": truncate(0.5),
    "cut at the end": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "other file": lambda path: path.write_bytes(b"PK\x03\x04" + bytes(range(256)) * 40),
    "of another run": change_metadata(identity="another run"),
    "state of another version": change_metadata(state={"steps": 3}),
    "weight missing": rename_tensor("model/head.weight", "model/heap.weight"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_an_unusable_checkpoint_counts_as_none_and_the_run_starts_again(uninterrupted, saved, damage):
    damage(saved)
    model, optimizer = fresh()
    assert load_checkpoint(saved.parent, model, optimizer, "run") is None
    state = TrainingState()
    finish(model, optimizer, state)
    assert_equal_runs(model, state, *uninterrupted["t5"])
