"""Checkpoints: one safetensors file with weights, optimizer state and training state, written atomically."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from bench.files import write_atomic
from bench.training.model import Decoder
from bench.training.optimizer import AdamW
from bench.training.train import TrainingState
from tasks import InputError

from .run import CHECKPOINT, RESULT, WEIGHTS


def checksum(tensors: Mapping[str, Tensor], *texts: str) -> str:
    """SHA-256 of texts, tensor names, shapes and bytes; safetensors itself has no checksum."""
    sha = hashlib.sha256("\n".join(texts).encode())
    for name in sorted(tensors):
        sha.update(f"{name} {tuple(tensors[name].shape)}".encode())
        sha.update(tensors[name].flatten().view(torch.uint8).numpy().data)
    return sha.hexdigest()


def save_checkpoint(
    folder: Path, model: Decoder, optimizer: AdamW, state: TrainingState, identity: str, name: str = CHECKPOINT
) -> None:
    """Write everything needed to resume a run.

    Tensors are named ``model/<name>``, and ``step/``, ``exp_avg/`` and ``exp_avg_sq/<name>`` of the optimizer.

    Arguments:
        identity: suite fingerprint, task, encoding, seed, source hash, torch version and device; a checkpoint with another
            identity is never resumed.
        name: ``CHECKPOINT``, or ``WEIGHTS`` of a finished training.
    """
    found = {f"model/{name}": tensor for name, tensor in model.state_dict().items()} | optimizer.moments()
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in found.items()}
    text = json.dumps(asdict(state))
    metadata = {"identity": identity, "state": text, "digest": checksum(tensors, identity, text)}
    write_atomic(folder / name, save(tensors, metadata))


def load_checkpoint(
    folder: Path, model: Decoder, optimizer: AdamW, identity: str, name: str = CHECKPOINT, from_anywhere: bool = False
) -> TrainingState | None:
    """Restore model and optimizer from a checkpoint; None if there is no usable one.

    A file that is damaged or belongs to another run counts as none: the run then starts from the beginning and gives the same
    result.

    Arguments:
        name: ``CHECKPOINT``, or ``WEIGHTS`` of a finished training.
        from_anywhere: torch and device, the last parts of the identity, may be others.

    Raises:
        InputError: the file cannot be read, or holds the weights of a finished run that was trained otherwise.
    """
    path = folder / name
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata()
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        found, text = metadata["identity"], metadata["state"]
        if metadata["digest"] != checksum(tensors, found, text):
            return None
        state = TrainingState(**json.loads(text))
        state.loss = [(step, loss) for step, loss in state.loss]
    except (FileNotFoundError, SafetensorError, KeyError, TypeError, ValueError):
        return None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error}") from error
    if from_anywhere and json.loads(found)[:-2] == json.loads(identity)[:-2]:
        found = identity
    if found != identity and name == WEIGHTS and (folder / RESULT).exists():
        raise InputError(
            f"{path} are the tested weights of a training with other code, another torch or another device; "
            f"use another --out, or delete {folder} to run it again"
        )
    if found != identity:
        return None
    weights = {key.removeprefix("model/"): value for key, value in tensors.items() if key.startswith("model/")}
    model.load_state_dict(weights)
    for name, value in optimizer.moments().items():
        value.copy_(tensors[name])
    return state
