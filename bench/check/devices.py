"""Devices: an encoding computes where its arguments are, on a GPU too."""

import re
from collections.abc import Callable
from typing import Any

from .checks import Fault, Undecided, encoding_check, place_of
from .hook_contract import named_parts, wrap_hooks
from .interface import NO_NUMPY, Caller, definition
from .subject import Subject


@encoding_check(
    "devices",
    expected="tensors are created on the device of the tokens, so that the encoding runs on a GPU too",
    advice="pass device=… to torch.arange and the like (at.positions.device, for instance), and keep fixed tables in "
    "register_buffer",
)
def check_devices(subject: Subject) -> str:
    # The meta device computes nothing, but like a GPU it rejects operations on tensors of different devices.
    case = subject.main
    model, tokens = subject.model().to("meta"), case.sequences(2, case.setup.train_tokens, seed=0).to("meta")
    plugin = Caller(subject).plugin

    def on_meta(hook: str, run: Callable, arguments: tuple[Any, ...]) -> Any:
        output = run(*arguments)
        if hook != "prepare" and not all(tensor.is_meta for _, tensor in named_parts("", output)):
            raise Fault(f"{definition(plugin, hook)}: `{hook}` returns a tensor on the CPU, wherever its arguments are")
        return output

    wrap_hooks(model.encoding, on_meta)
    for training in (True, False):
        try:
            model.train(training)(tokens, case.setup.longest_tokens)
        except Exception as error:
            where = place_of(error, subject.own_files)
            if re.search("expected device|same device", str(error)):
                raise Fault(f"{where}: {' '.join(str(error).split()):.300}".removeprefix(": ")) from error
            if "to numpy" in str(error):
                raise Fault(f"{where}: converts a tensor to numpy".removeprefix(": "), NO_NUMPY) from error
            if "meta" not in str(error) and not isinstance(error, NotImplementedError):
                raise
            reason = f"{where or 'it'} needs the numbers in a tensor ({type(error).__name__})"
            raise Undecided(f"cannot be decided without a GPU: {reason}") from None
    return "all tensors on one device"
