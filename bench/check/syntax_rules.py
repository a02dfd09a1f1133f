"""What the source of a submission may say: lists of what is allowed, applied to its syntax tree. Nothing is run.

The lists leave out whatever reaches beyond the hooks' arguments: other modules, the interpreter's frames and objects, torch's
global settings. So an encoding cannot change the process in which it runs, and its source shows a reader what it does. What
the rules miss meets the sandbox, in which the code has nothing to find, and the judge (``bench/sealed``), which does not
trust it.
"""

import ast
import builtins
import importlib
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from bench.plugins.declared import is_literal

MODULES = (
    "__future__", "abc", "cmath", "collections", "collections.abc", "contextlib", "dataclasses", "enum", "fractions",
    "functools", "itertools", "math", "numbers", "statistics", "typing",
    "torch", "torch.amp", "torch.autograd", "torch.autograd.function", "torch.fft", "torch.linalg", "torch.nn",
    "torch.nn.functional", "torch.nn.init", "torch.special", "torch.ops", "torch.ops.aten",
    "numpy", "numpy.fft", "numpy.linalg", "jaxtyping", "lprime", "tasks", "bench.encodings",
)  # fmt: skip
"""What a source may import, apart from its own files and modules of ``bench.encodings``."""
NAMES = {
    "collections": {"ChainMap", "Counter", "OrderedDict", "defaultdict", "deque", "namedtuple"},
    "functools": {"cache", "cached_property", "lru_cache", "partial", "reduce", "wraps"},
    "tasks": {"InputError", "BOS", "EOS", "PAD"},
    "lprime": {"At", "Encoding", "Info", "InputError"},
    "torch.ops": {"aten"},
}
"""Modules of which only these names are allowed."""
REFUSED = {
    "torch": re.compile(
        r"load|save|from_file|frombuffer|set_.*|manual_seed|seed|compile|fork|wait|use_deterministic.*|import_ir.*|"
        r"get_file_path|_(?!softmax_backward_data).*"
    ),
    "numpy": re.compile(r"load.*|save.*|from.*|memmap|genfromtxt|set.*|DataSource|_.*"),
    "typing": re.compile(r"get_type_hints|ForwardRef|_.*"),
    "dataclasses": re.compile(r"make_dataclass|_.*"),
    "jaxtyping": re.compile(r".*hook|_.*"),
    "torch.ops.aten": re.compile(r"from_file|_.*"),
}
"""Names of modules that reach files, or settings of the whole process."""
BUILTINS = """
abs all any bool callable classmethod complex dict divmod enumerate filter float frozenset int isinstance issubclass iter len
list map max min next object pow print property range repr reversed round set slice sorted staticmethod str sum super tuple zip
Ellipsis False None NotImplemented True ArithmeticError AssertionError AttributeError Exception IndexError KeyError LookupError
NotImplementedError OverflowError RuntimeError StopIteration TypeError ValueError ZeroDivisionError
"""
DISALLOWED_BUILTINS = vars(builtins).keys() - BUILTINS.split()
"""All builtins of Python except these."""
METHODS = frozenset(("__init__", "__init_subclass__", "__post_init__", "__call__", "__len__", "__repr__"))
"""Methods of Python that a class may define and call."""
ATTRIBUTES = re.compile(
    r"(gi|cr|ag|tb|f|co)_(frame|code|back|next|globals|locals|builtins|yieldfrom|await|consts)|ctypes|data_ptr|mro|format|format_map|"
    r".*storage.*|set_|grad_fn|from_file|tofile|dump|.*hooks?|load_library|import_module"
)
"""Attributes that lead to frames, addresses or other tensors' memory, and torch's own hooks."""
OWN = ("self", "cls", "ctx")
"""Names whose attributes may be assigned. They are bound as the first argument of a method, and in no other way."""
DECLARED = ("info", "stage")
"""Attributes that are what the class declares, and so are the same in each instance."""


def syntax_faults(tree: ast.Module, own_modules: set[str]) -> Iterator[str]:
    """Faults of one file, each with its line.

    Arguments:
        own_modules: first parts of the names of the submission's own modules.
    """
    modules = Modules(own_modules)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (f"line {node.lineno}: {fault}" for fault in modules.add(node))
    bases = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    methods = [f for c in ast.walk(tree) if isinstance(c, ast.ClassDef) for f in c.body if isinstance(f, ast.FunctionDef)]
    firsts = {id(argument) for f in methods for argument in (*f.args.posonlyargs, *f.args.args)[:1]}
    yield from (f"line {f.lineno}: defines make; put it into __init__" for f in methods if f.name == "make")
    types = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Subscript)}  # as in type[Encoding]
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "type" and id(node) in types:
            continue
        faults = node_faults(node, modules, id(node) in bases)
        for fault in faults if id(node) in firsts else (*binding_faults(node), *faults):
            yield f"line {getattr(node, 'lineno', 0)}: {fault}"


def imported(name: str) -> tuple[ModuleType | None, str]:
    """An allowed module, or the fault that there is none of this name."""
    try:
        return importlib.import_module(name), ""
    except ModuleNotFoundError:
        return None, f"imports {name}, which does not exist"


class Modules:
    """The modules that a file imports, by the name that it gives them."""

    def __init__(self, own_modules: set[str]):
        self.own_modules = own_modules
        self.names: dict[str, ModuleType] = {}

    def add(self, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
        """Add an import statement. Yields its faults."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] in self.own_modules:
                    continue
                if not allowed(alias.name):
                    yield f"imports {alias.name}, which is not allowed"
                    continue
                module, fault = imported(alias.name)
                if module is None:
                    yield fault
                else:  # `import a.b` binds a, and `import a.b as c` binds a.b
                    first = alias.name.partition(".")[0]
                    self.names[alias.asname or first] = module if alias.asname else importlib.import_module(first)
        elif not node.level and (node.module or "").partition(".")[0] not in self.own_modules:
            name = node.module or ""
            if not allowed(name):
                yield f"imports from {name}, which is not allowed"
                return
            module, fault = imported(name)
            if not module:
                yield fault
                return
            for alias in node.names:
                if alias.name == "*":
                    yield f"imports * from {name}; name what is used"
                    continue
                value, fault = member(module, alias.name)
                if fault:
                    yield fault
                elif isinstance(value, ModuleType):
                    self.names[alias.asname or alias.name] = value

    def resolve(self, node: ast.expr) -> tuple[Any, str]:
        """The module or member that an expression such as ``torch.nn`` is, or None; and its fault."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id), ""
        if isinstance(node, ast.Attribute):
            base, _ = self.resolve(node.value)
            if isinstance(base, ModuleType):
                return member(base, node.attr)
        return None, ""


def allowed(name: str) -> bool:
    return name in MODULES or name.startswith("bench.encodings.")


def member(module: ModuleType, name: str) -> tuple[Any, str]:
    """An attribute of an allowed module, and the fault of using it."""
    place = module.__name__
    value = getattr(module, name, None)
    if value is None and f"{place}.{name}" in MODULES:
        value = importlib.import_module(f"{place}.{name}")
    refused, metaclass = REFUSED.get(place), isinstance(value, type) and issubclass(value, type)
    if metaclass or (place in NAMES and name not in NAMES[place]) or (refused and refused.fullmatch(name)):
        return None, f"uses {place}.{name}, which is not allowed"
    if isinstance(value, ModuleType) and not allowed(value.__name__):
        return None, f"uses the module {place}.{name}, which is not allowed"
    return value, ""


def binding_faults(node: ast.AST) -> Iterator[str]:
    """Faults of an import, a function, an argument or another node that binds one of the names ``OWN``."""
    if not isinstance(node, (ast.Name, ast.Attribute, ast.Constant, ast.keyword)):
        bound = {value for _, value in ast.iter_fields(node) if isinstance(value, str) and value in OWN}
        yield from (f"gives the name {name} to something else than the first argument of a method" for name in bound)


def node_faults(node: ast.AST, modules: Modules, is_base: bool) -> Iterator[str]:
    """Faults of one node of the tree, without those inside it."""
    if isinstance(node, ast.Name):
        if is_dunder(node.id) or node.id in DISALLOWED_BUILTINS:
            yield f"uses {node.id}, which is not allowed"
        elif node.id in (*OWN, *modules.names) and not isinstance(node.ctx, ast.Load):
            yield f"assigns another value to {node.id}"
    elif isinstance(node, ast.Attribute):
        yield from attribute_faults(node, modules)
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        if is_dunder(node.name) and node.name not in METHODS:
            yield f"defines {node.name}, which is not allowed"
        elif isinstance(node, ast.FunctionDef) and node.name == "__init__":
            for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
                if default and not is_literal(default):
                    yield f"the default of {argument.arg} is not a literal such as 0.5, so it is unknown if no code is run"
    elif isinstance(node, (ast.Global, ast.Nonlocal)):
        yield f"{type(node).__name__.lower()} {', '.join(node.names)}: hooks keep no state"
    elif isinstance(node, ast.MatchClass):
        yield from (f"uses .{name}, which is not allowed" for name in node.kwd_attrs if refused_attribute(name))
    if isinstance(node, (ast.Name, ast.Attribute)) and not is_base and isinstance(modules.resolve(node)[0], ModuleType):
        yield f"uses the module {ast.unparse(node)} as a value"


def attribute_faults(node: ast.Attribute, modules: Modules) -> Iterator[str]:
    name, own = node.attr, isinstance(node.value, ast.Name) and node.value.id in OWN
    base, _ = modules.resolve(node.value)
    if isinstance(base, ModuleType):
        fault = modules.resolve(node)[1]
        if fault:
            yield fault
    elif refused_attribute(name) or (name.startswith("_") and not own and not is_dunder(name)):
        yield f"uses .{name}, which is not allowed"
    if isinstance(node.ctx, (ast.Store, ast.Del)) and not own:
        yield f"assigns to {ast.unparse(node)}; only attributes of self may be assigned"
    elif isinstance(node.ctx, (ast.Store, ast.Del)) and name in DECLARED:
        yield f"assigns to {ast.unparse(node)}; declare it in the class, outside of methods"


def refused_attribute(name: str) -> bool:
    return (is_dunder(name) and name not in METHODS) or bool(ATTRIBUTES.fullmatch(name))


def is_dunder(name: str) -> bool:
    return name.startswith("__")
