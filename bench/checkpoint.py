"""Checkpoints: one safetensors file with weights, optimizer moments and training state, whole or not there at all."""

import json
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from tasks import InputError

from .files import write_atomic
from .model import Decoder
from .runs import CHECKPOINT
from .train import State


def save_checkpoint(folder: Path, model: Decoder, optimizer: torch.optim.Optimizer, state: State, identity: str) -> None:
    """Write everything a run needs to go on.

    Arguments:
        identity: what run this is (suite fingerprint, task, encoding, source, seed): a checkpoint of another is never resumed.
    """
    tensors = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{key}/{name}"] = value
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_atomic(folder / CHECKPOINT, save(whole, {"identity": identity, "state": json.dumps(asdict(state))}))


def load_checkpoint(folder: Path, model: Decoder, optimizer: torch.optim.Optimizer, identity: str) -> State | None:
    """Put a saved run back into model and optimizer; None where there is nothing to go on from.

    A file that is damaged or belongs to another run is set aside as ``checkpoint.safetensors.unusable``: the run starts anew
    and gives the same result, only later.

    Raises:
        InputError: the file cannot be read at all.
    """
    path = folder / CHECKPOINT
    if not path.exists():
        return None
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata()
            if metadata["identity"] != identity:
                raise KeyError("identity")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        state = State(**json.loads(metadata["state"]))
        state.loss = [(step, loss) for step, loss in state.loss]
        weights = {name.removeprefix("model/"): t for name, t in tensors.items() if name.startswith("model/")}
        model.load_state_dict(weights)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error}") from error
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError):
        path.replace(path.with_name(CHECKPOINT + ".unusable"))
        return None
    for name, parameter in model.named_parameters():
        moments = {key: tensors[f"{key}/{name}"] for key in ("step", "exp_avg", "exp_avg_sq") if f"{key}/{name}" in tensors}
        if moments:
            # The step counter stays in float32 beside the parameter, as the fused kernel wants it.
            optimizer.state[parameter] = {key: value.to(parameter.device) for key, value in moments.items()}
    return state
