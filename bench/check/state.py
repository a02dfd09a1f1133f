"""What may not stay behind: nothing is carried from one pass to the next, and a model is what its state dict holds."""

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

from ..encodings import Encoding
from ..model import Decoder
from .subject import Fault, Subject, check, differs, mode, states

DEPTH = 6
"""Of objects within objects that are looked into."""


@check(
    "memory",
    expected="a pass gives the same, bit for bit, whatever passes came before it, and leaves no trace in encoding or module",
    advice="keep nothing from one pass for another: what hangs on position ids goes into `prepare`, fixed tables into the "
    "constructor (register_buffer), and nothing into attributes, lists or globals",
)
def memory(subject: Subject) -> str:
    case, model = subject.main, subject.model()
    sizes = case.setup.train_tokens, case.setup.longest_tokens
    batches = [case.sequences(3 + n, width, seed=n) for n, width in enumerate(sizes)]
    model.train(False)
    before = traces(subject, model.encoding)
    first: dict[tuple[int, bool], Tensor] = {}
    for turn in range(3):
        for training in (True, False):
            for n, tokens in enumerate(batches):
                out = states(model, tokens, training=training)
                known = first.setdefault((n, training), out)
                if not torch.equal(out, known):
                    raise Fault(
                        f"{mode(training)}, {tokens.shape[1]} tokens: the same batch gives another output in turn {turn + 1}"
                    )
        model.train(True)
        out = model(batches[0], sizes[0], torch.Generator().manual_seed(0))
        out.square().mean().backward()
        model.zero_grad(set_to_none=True)
    model.train(False)
    after = traces(subject, model.encoding)
    if changed := sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key)):
        raise Fault(f"passes change {', '.join(changed[:5])}")
    return (
        f"{len(batches)} batches gave the same three times over, and {len(before)} attributes and globals stayed as they were"
    )


def traces(subject: Subject, encoding: Encoding) -> dict[str, str]:
    """Where a plugin could keep something → what is there: attributes, class attributes, globals of its modules."""
    found = {}
    for path, module in encoding.named_modules():
        for key, value in vars(module).items():
            if key != "_modules":
                found[f"attribute {f'{path}.' if path else ''}{key} of {type(module).__name__}"] = impression(value)
    for part in subject.parts:
        for key, value in vars(part).items():
            found[f"class attribute {part.__name__}.{key}"] = impression(value)
    for names in namespaces(subject):
        for key, value in names.items():
            if not key.startswith("__"):
                found[f"global {key} of {Path(names['__file__']).name}"] = impression(value)
    return found


def namespaces(subject: Subject) -> list[dict[str, Any]]:
    """The globals of every module it is made of."""
    found: dict[str, dict[str, Any]] = {}
    pending = [vars(sys.modules[part.__module__]) for part in subject.parts]
    while pending:
        names = pending.pop()
        file = str(Path(names.get("__file__") or "").resolve())
        if file in found or file not in subject.files:
            continue
        found[file] = names
        for value in list(names.values()):
            members = [value, *(vars(value).values() if isinstance(value, type) else ())]
            pending += [vars(m) if isinstance(m, ModuleType) else getattr(m, "__globals__", {}) for m in members]
    return list(found.values())


def impression(value: Any, depth: int = 0, seen: frozenset[int] = frozenset()) -> str:
    """What a value holds, written out: equal for as long as nothing in it changes."""
    if id(value) in seen or depth > DEPTH:
        return "…"
    seen |= {id(value)}

    def inside(part: Any) -> str:
        return impression(part, depth + 1, seen)

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
            with suppress(ValueError):  # not filled yet
                cells.append(cell.cell_contents)
        return f"function {id(value)} {inside([cells, value.__defaults__, value.__kwdefaults__, vars(value)])}"
    if isinstance(value, (type, ModuleType, BuiltinFunctionType, MethodType, nn.Module)):
        return f"{type(value).__name__} {id(value)}"
    return f"{type(value).__name__} {id(value)} {inside(getattr(value, '__dict__', None))}"


@check(
    "determinism",
    expected="equal seeds give equal models and equal outputs, here and in another process",
    advice="let nothing hang on time, process, memory addresses, hash() or the order of sets",
)
def determinism(subject: Subject) -> str:
    for case in (subject.main, *subject.elsewhere):
        one, two = (subject.model(case, seed=3) for _ in range(2))
        for name, tensor in one.state_dict().items():
            if not torch.equal(tensor, two.state_dict()[name]):
                raise Fault(f"two models of the same seed start with other numbers in {name}")
        tokens = case.sequences(2, case.setup.train_tokens, seed=0)
        for training in (True, False):
            if not torch.equal(*(states(model, tokens, training=training, seed=4) for model in (one, two))):
                raise Fault(f"{mode(training)}: two models of the same seed give other outputs")
    if subject.echo is None:
        return "equal twice in one process"
    here, there = (torch.tensor(numbers) for numbers in (echo(subject), subject.echo()))
    if here.shape != there.shape or not torch.allclose(here, there, rtol=1e-3, atol=1e-3):
        raise Fault("another process with the same seeds finds other outputs")
    return "equal twice in one process, and in another process"


def echo(subject: Subject) -> list[float]:
    """A few numbers that hang on everything a model of the encoding does."""
    model, case = subject.model(), subject.main
    tokens = case.sequences(2, case.setup.longest_tokens, seed=0)
    return [x for training in (True, False) for x in states(model, tokens, training=training)[:, ::10, ::8].flatten().tolist()]


@check(
    "randomness",
    expected="what is drawn comes from at.generator, and info.random says whether anything is",
    advice="give generator=at.generator to every draw, and declare random=True in info if there are any",
)
def randomness(subject: Subject) -> str:
    model, case = subject.model(), subject.main
    tokens = case.sequences(2, case.setup.train_tokens, seed=0)
    before = others()
    drew = False
    for training in (True, False):
        source = torch.Generator().manual_seed(0)
        start = source.get_state()
        model.train(training)
        model(tokens, tokens.shape[1], source)
        drew |= not torch.equal(start, source.get_state())
        if before != others():
            raise Fault(f"{mode(training)}: a pass draws from a generator of the whole process (torch's, numpy's or Python's)")
    if drew and not subject.cls.info.random:
        raise Fault("draws from at.generator, but info says random=False", "declare random=True in info")
    if not drew and subject.cls.info.random:
        raise Fault(
            "draws nothing from at.generator, but info says random=True", "declare random=False, or draw from at.generator"
        )
    if not drew:
        model(tokens, tokens.shape[1], None)
    return "draws from at.generator alone, as declared" if drew else "draws nothing, as declared"


def others() -> str:
    """The generators that a whole process shares."""
    return impression([torch.get_rng_state(), list(np.random.get_state()), random.getstate()])


@check(
    "state dict",
    expected="a model of another seed gives the same outputs once it has loaded the state dict, through a safetensors file",
    advice="keep every number that is drawn or learned in a parameter (nn.Parameter) or a buffer (register_buffer)",
)
def state_dict(subject: Subject) -> str:
    case = subject.main
    one, two = subject.model(case, seed=0), subject.model(case, seed=1)
    tensors = {name: tensor.contiguous() for name, tensor in one.state_dict().items()}
    kept = load(save(tensors))
    two.load_state_dict(kept)
    tokens = case.sequences(2, case.setup.longest_tokens, seed=0)
    for training in (True, False):
        if differs(states(one, tokens, training=training), states(two, tokens, training=training)).any():
            raise Fault(
                f"{mode(training)}: outputs differ after loading, so the encoding holds numbers that its state dict has not"
            )
    own = sum(name.startswith("encoding.") for name in kept)
    return f"the same outputs; tensors of the encoding: {own or 'none'}"


def tables(model: Decoder) -> dict[str, tuple[Tensor, bool]]:
    """Parameters and buffers, and whether they are trained."""
    named = (*model.named_parameters(), *model.named_buffers())
    return {name: (tensor.detach().clone(), tensor.requires_grad) for name, tensor in named}


def moved(before: Mapping[str, tuple[Tensor, bool]], after: Mapping[str, tuple[Tensor, bool]]) -> list[str]:
    """The names that are not what they were."""
    return [
        name
        for name in before.keys() | after.keys()
        if name not in before or name not in after or before[name][1] != after[name][1]
        or not torch.equal(before[name][0], after[name][0])
    ]  # fmt: skip
