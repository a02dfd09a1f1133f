"""Checkpoints: one safetensors file with weights, optimizer moments and training state, whole or not there at all."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from tasks import InputError

from .files import write_atomic
from .model import Decoder
from .optimizer import FlatAdamW
from .runs import CHECKPOINT
from .train import State


def contents(model: Decoder, optimizer: FlatAdamW) -> dict[str, Tensor]:
    """Every tensor of a run: ``model/<name>``; ``step/``, ``exp_avg/`` and ``exp_avg_sq/<name>`` of the optimizer's vectors."""
    tensors = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
    for name, vector in optimizer.vectors.items():
        for key, value in optimizer.state.get(vector, {}).items():
            tensors[f"{key}/{name}"] = value
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def digest(tensors: Mapping[str, Tensor], *words: str) -> str:
    """SHA-256 over words, names, shapes and bytes: safetensors itself has no checksum."""
    found = hashlib.sha256("\n".join(words).encode())
    for name in sorted(tensors):
        found.update(f"{name} {tuple(tensors[name].shape)}".encode())
        found.update(tensors[name].flatten().view(torch.uint8).numpy().data)
    return found.hexdigest()


def save_checkpoint(folder: Path, model: Decoder, optimizer: FlatAdamW, state: State, identity: str) -> None:
    """Write everything a run needs to go on.

    Arguments:
        identity: what run this is (suite fingerprint, task, encoding, seed, source, torch's version, device): a checkpoint of
            another is never resumed.
    """
    tensors, text = contents(model, optimizer), json.dumps(asdict(state))
    metadata = {"identity": identity, "state": text, "digest": digest(tensors, identity, text)}
    write_atomic(folder / CHECKPOINT, save(tensors, metadata))


def load_checkpoint(folder: Path, model: Decoder, optimizer: FlatAdamW, identity: str) -> State | None:
    """Put a saved run back into model and optimizer; None where there is nothing to go on from.

    A file that is damaged or belongs to another run is set aside as ``checkpoint.safetensors.unusable`` before it has touched
    anything: the run starts anew and gives the same result, only later.

    Raises:
        InputError: the file cannot be read at all.
    """
    path = folder / CHECKPOINT
    if not path.exists():
        return None
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata()
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        if metadata["identity"] != identity or metadata["digest"] != digest(tensors, identity, metadata["state"]):
            raise ValueError("of another run, or damaged")
        state = State(**json.loads(metadata["state"]))
        weights = {name.removeprefix("model/"): t for name, t in tensors.items() if name.startswith("model/")}
        if {n: t.shape for n, t in weights.items()} != {n: t.shape for n, t in model.state_dict().items()}:
            raise ValueError("of another model")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error}") from error
    except (SafetensorError, KeyError, TypeError, ValueError):
        path.replace(path.with_name(CHECKPOINT + ".unusable"))
        return None
    state.loss = [(step, loss) for step, loss in state.loss]
    model.load_state_dict(weights)
    for name, vector in optimizer.vectors.items():
        moments = {key: tensors[f"{key}/{name}"] for key in ("step", "exp_avg", "exp_avg_sq") if f"{key}/{name}" in tensors}
        if moments:
            # The step counter stays in float32 beside the vector, as the fused kernel wants it.
            optimizer.state[vector] = {key: value.to(vector.device) for key, value in moments.items()}
    return state
