"""Statefulness: no state may carry over between forward passes, and the state dict must be the whole state of a model."""

import random
import sys
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from bench.encodings import Encoding
from bench.training.model import Decoder

from .checks import Fault, encoding_check
from .subject import Subject, hidden_states, mode, rows_differ

DEPTH = 6
"""Levels of nested objects that are examined."""


@encoding_check(
    "memory",
    expected="a pass gives the same output, bit for bit, whatever passes came before it, and changes no attribute or global",
    advice="keep nothing from one pass to the next: compute what depends on position ids in `prepare`, fixed tables in the "
    "constructor (register_buffer), and store nothing in attributes, lists or globals",
)
def check_memory(subject: Subject) -> str:
    case, model = subject.main, subject.model()
    widths = case.setup.train_tokens, case.setup.longest_tokens
    batches = [case.sequences(3 + n, width, seed=n) for n, width in enumerate(widths)]
    model.train(False)
    before = snapshot(subject, model.encoding)
    first_outputs: dict[tuple[int, bool], Tensor] = {}
    for turn in range(3):
        for training in (True, False):
            for n, tokens in enumerate(batches):
                output = hidden_states(model, tokens, training=training)
                if not torch.equal(output, first_outputs.setdefault((n, training), output)):
                    raise Fault(
                        f"{mode(training)}, {tokens.shape[1]} tokens: the same batch gives another output in turn {turn + 1}"
                    )
        model.train(True)
        output = model(batches[0], widths[0], torch.Generator().manual_seed(0))
        output.square().mean().backward()
        model.zero_grad(set_to_none=True)
    model.train(False)
    after = snapshot(subject, model.encoding)
    if changed := sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key)):
        raise Fault(f"passes change {', '.join(changed[:5])}")
    return f"{len(batches)} batches gave the same output three times; {len(before)} attributes and globals did not change"


def snapshot(subject: Subject, encoding: Encoding) -> dict[str, str]:
    """Contents of all places where a plugin could keep state: attributes, class attributes, globals of its modules."""
    contents = {}
    for path, module in encoding.named_modules():
        for key, value in vars(module).items():
            if key != "_modules":
                contents[f"attribute {f'{path}.' if path else ''}{key} of {type(module).__name__}"] = describe_content(value)
    for cls in subject.classes:
        for key, value in vars(cls).items():
            contents[f"class attribute {cls.__name__}.{key}"] = describe_content(value)
    for namespace in namespaces(subject):
        for key, value in namespace.items():
            if not key.startswith("__"):
                contents[f"global {key} of {Path(namespace['__file__']).name}"] = describe_content(value)
    return contents


def namespaces(subject: Subject) -> list[dict[str, Any]]:
    """The globals of all modules of the encoding."""
    by_file: dict[str, dict[str, Any]] = {}
    # Modules next to a plugin's file are not in sys.modules, but their functions refer to their globals.
    pending = [vars(sys.modules[cls.__module__]) for cls in subject.classes if cls.__module__ in sys.modules]
    pending += [getattr(member, "__globals__", {}) for cls in subject.classes for member in vars(cls).values()]
    while pending:
        namespace = pending.pop()
        file = str(Path(namespace.get("__file__") or "").resolve())
        if file in by_file or file not in subject.files:
            continue
        by_file[file] = namespace
        for value in list(namespace.values()):
            members = [value, *(vars(value).values() if isinstance(value, type) else ())]
            pending += [vars(m) if isinstance(m, ModuleType) else getattr(m, "__globals__", {}) for m in members]
    return list(by_file.values())


def describe_content(value: Any, depth: int = 0, seen: frozenset[int] = frozenset()) -> str:
    """Describe a value by a text that changes whenever something inside the value changes."""
    if id(value) in seen or depth > DEPTH:
        return "…"
    seen |= {id(value)}

    def inside(part: Any) -> str:
        return describe_content(part, depth + 1, seen)

    if isinstance(value, Tensor):
        content = value.detach().cpu().contiguous().flatten().view(torch.uint8) if value.numel() else value
        return f"tensor {tuple(value.shape)} {value.dtype} {sha256(content.numpy().tobytes()).hexdigest()}"
    if isinstance(value, np.ndarray):
        return f"array {value.shape} {sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, torch.Generator):
        return inside(value.get_state())
    if isinstance(value, (bool, int, float, complex, str, bytes, type(None))):
        return repr(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{inside(k)}: {inside(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(map(inside, value))) + "}"
    if isinstance(value, (list, tuple)) or type(value).__name__ == "deque":
        return "[" + ", ".join(map(inside, value)) + "]"
    if isinstance(value, FunctionType):
        cells = []
        for cell in value.__closure__ or ():
            with suppress(ValueError):  # empty
                cells.append(cell.cell_contents)
        return f"function {id(value)} {inside([cells, value.__defaults__, value.__kwdefaults__, vars(value)])}"
    if isinstance(value, (type, ModuleType, BuiltinFunctionType, MethodType, nn.Module)):
        return f"{type(value).__name__} {id(value)}"
    return f"{type(value).__name__} {id(value)} {inside(getattr(value, '__dict__', None))}"


@encoding_check(
    "determinism",
    expected="equal seeds give equal models and equal outputs, in this and in another process",
    advice="depend on nothing that varies between processes: time, process id, memory addresses, hash(), the order of sets",
)
def check_determinism(subject: Subject) -> str:
    for case in (subject.main, *subject.other_cases):
        models = [subject.model(case, seed=3) for _ in range(2)]
        first, second = (model.state_dict() for model in models)
        for name, tensor in first.items():
            if not torch.equal(tensor, second[name]):
                raise Fault(f"two models of the same seed start with different numbers in {name}")
        tokens = case.sequences(2, case.setup.train_tokens, seed=0)
        for training in (True, False):
            if not torch.equal(*(hidden_states(model, tokens, training=training, seed=4) for model in models)):
                raise Fault(f"{mode(training)}: two models of the same seed give different outputs")
    if subject.sample_elsewhere is None:
        return "equal twice in one process"
    here, there = (torch.tensor(numbers) for numbers in (output_sample(subject), subject.sample_elsewhere()))
    if here.shape != there.shape or not torch.allclose(here, there, rtol=1e-3, atol=1e-3):
        raise Fault("another process with the same seeds gives different outputs")
    return "equal twice in one process, and in another process"


def output_sample(subject: Subject) -> list[float]:
    """Some outputs of a fixed model on fixed tokens."""
    model, case = subject.model(), subject.main
    tokens = case.sequences(2, case.setup.longest_tokens, seed=0)
    outputs = [hidden_states(model, tokens, training=training) for training in (True, False)]
    return [number for output in outputs for number in output[:, ::10, ::8].flatten().tolist()]


@encoding_check(
    "randomness",
    expected="all random numbers come from at.generator, and info.random declares whether there are any",
    advice="pass generator=at.generator to every draw, and declare random=True in info if there are any",
)
def check_randomness(subject: Subject) -> str:
    model, case = subject.model(), subject.main
    tokens = case.sequences(2, case.setup.train_tokens, seed=0)
    before = global_generators()
    draws = False
    for training in (True, False):
        generator = torch.Generator().manual_seed(0)
        start = generator.get_state()
        model.train(training)
        model(tokens, tokens.shape[1], generator)
        draws |= not torch.equal(start, generator.get_state())
        if before != global_generators():
            raise Fault(f"{mode(training)}: a pass draws from a global generator (torch's, numpy's or Python's)")
    if draws and not subject.cls.info.random:
        raise Fault("draws from at.generator, but info says random=False", "declare random=True in info")
    if not draws and subject.cls.info.random:
        raise Fault(
            "draws nothing from at.generator, but info says random=True", "declare random=False, or draw from at.generator"
        )
    if not draws:
        model(tokens, tokens.shape[1], None)
    return "draws from at.generator only, as declared" if draws else "draws nothing, as declared"


def global_generators() -> str:
    return describe_content([torch.get_rng_state(), list(np.random.get_state()), random.getstate()])


@encoding_check(
    "state dict",
    expected="a model of another seed gives the same outputs after it loads the state dict, through a safetensors file",
    advice="keep every number that is drawn or learned in a parameter (nn.Parameter) or a buffer (register_buffer)",
)
def check_state_dict(subject: Subject) -> str:
    case = subject.main
    original, loaded = subject.model(case, seed=0), subject.model(case, seed=1)
    state = load(save({name: tensor.contiguous() for name, tensor in original.state_dict().items()}))
    loaded.load_state_dict(state)
    tokens = case.sequences(2, case.setup.longest_tokens, seed=0)
    for training in (True, False):
        before, after = (hidden_states(model, tokens, training=training) for model in (original, loaded))
        if rows_differ(before, after).any():
            raise Fault(f"{mode(training)}: outputs differ after loading, so the encoding keeps numbers outside its state dict")
    count = sum(name.startswith("encoding.") for name in state)
    return f"the same outputs; tensors of the encoding: {count or 'none'}"


def model_tensors(model: Decoder) -> dict[str, tuple[Tensor, bool]]:
    """Copies of parameters and buffers, and whether they are trained."""
    named = (*model.named_parameters(), *model.named_buffers())
    return {name: (tensor.detach().clone(), tensor.requires_grad) for name, tensor in named}


def changed_tensors(before: Mapping[str, tuple[Tensor, bool]], after: Mapping[str, tuple[Tensor, bool]]) -> list[str]:
    """Names of tensors that were added, removed or changed."""
    return sorted(
        name
        for name in before.keys() | after.keys()
        if name not in before or name not in after or before[name][1] != after[name][1]
        or not torch.equal(before[name][0], after[name][0])
    )  # fmt: skip
