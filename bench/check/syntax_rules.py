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
from collections.abc import Collection, Iterator
from types import ModuleType
from typing import Any

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
    "functools": {"cache", "cached_property", "lru_cache", "partial", "reduce"},
    "tasks": {"InputError", "BOS", "EOS", "PAD"},
    "lprime": {"At", "Encoding", "Info", "InputError"},
    "torch.ops": {"aten"},
}
"""Modules of which only these names are allowed."""
REFUSED = {
    "torch": re.compile(
        r"load|save|from_file|frombuffer|set_.*|manual_seed|seed|compile|fork|wait|use_deterministic.*|import_ir.*|"
        r"get_file_path|get_device_module|default_generator|init_num_threads|"
        r"(?!(\w*Tensor|Size|Generator|Sym(Int|Float|Bool))$)[A-Z].*|_(?!softmax_backward_data).*"
    ),
    "torch.autograd": re.compile(r"set_.*"),
    "contextlib": re.compile(r"chdir|redirect_.*"),
    "enum": re.compile(r"global_enum"),
    "numpy": re.compile(r"load.*|save.*|from.*|memmap|genfromtxt|set.*|DataSource|_.*"),
    "typing": re.compile(r"get_type_hints|ForwardRef|_.*"),
    "dataclasses": re.compile(r"make_dataclass|_.*"),
    "jaxtyping": re.compile(r".*hook|_.*"),
    "torch.ops.aten": re.compile(r"from_file|_.*"),
}
"""Names of modules that reach files, other modules, or settings of the whole process."""
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
    r".*storage.*|set_|grad_fn|from_file|tofile|dump|.*hooks?|load_library|import_module|register|_convert_"
)
"""Attributes that lead to frames, addresses, modules, other classes or other tensors' memory, and torch's own hooks."""
OWN = ("self", "cls", "ctx")
"""Names whose attributes may be assigned. They are bound as the first argument of a method, and in no other way."""
DECLARED = ("info", "stage")
"""Attributes that are what the class declares, and so are the same in each instance."""


def syntax_faults(tree: ast.Module, modules: "Modules", shared: Collection[str]) -> Iterator[str]:
    """Faults of one file, each with its line.

    Arguments:
        modules: those that the file imports.
        shared: names that any file of the submission gives to modules.
    """
    yield from modules.faults
    bases = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    yield from (
        f"line {n.lineno}: imports in the body of a class; import outside of it" for c in classes for n in imports_in(c)
    )
    methods = [f for c in classes for f in c.body if isinstance(f, ast.FunctionDef)]
    firsts = {id(argument) for f in methods for argument in (*f.args.posonlyargs, *f.args.args)[:1]}
    yield from (f"line {f.lineno}: defines make; put it into __init__" for f in methods if f.name == "make")
    types = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Subscript)}  # as in type[Encoding]
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "type" and id(node) in types:
            continue
        faults = (*node_faults(node, modules, id(node) in bases), *shared_faults(node, modules, shared))
        for fault in faults if id(node) in firsts else (*binding_faults(node), *faults):
            yield f"line {getattr(node, 'lineno', 0)}: {fault}"


def imported(name: str) -> tuple[ModuleType | None, str]:
    """An allowed module, or the fault that there is none of this name."""
    try:
        return importlib.import_module(name), ""
    except ModuleNotFoundError:
        return None, f"imports {name}, which does not exist"


def imports_in(body: ast.ClassDef) -> Iterator[ast.stmt]:
    """Import statements in the body of a class, which make the module an attribute; those in its methods do not."""
    functions = (node for node in ast.walk(body) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    inside = {id(node) for function in functions for node in ast.walk(function)}
    return (n for n in ast.walk(body) if isinstance(n, (ast.Import, ast.ImportFrom)) and id(n) not in inside)


class Modules:
    """The modules that a file imports, by the name that it gives them.

    Arguments:
        own_modules: first parts of the names of the submission's own modules.
    """

    def __init__(self, tree: ast.Module, own_modules: set[str]):
        self.own_modules, self.own_names = own_modules, set[str]()
        self.names: dict[str, ModuleType] = {}
        imports = (node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)))
        self.faults = [f"line {node.lineno}: {fault}" for node in imports for fault in self.add(node)]

    def add(self, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
        """Add an import statement. Yields its faults."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                if first in self.own_modules:
                    self.own_names.add(alias.asname or first)
                    continue
                if not allowed(alias.name):
                    yield f"imports {alias.name}, which is not allowed"
                    continue
                module, fault = imported(alias.name)
                if module is None:
                    yield fault
                else:  # `import a.b` binds a, and `import a.b as c` binds a.b
                    yield from self.bind(alias.asname or first, module if alias.asname else importlib.import_module(first))
        elif self.is_own(node):
            self.own_names |= {alias.asname or alias.name for alias in node.names}
            if any(alias.name == "*" for alias in node.names):
                yield f"imports * from {'.' * node.level}{node.module or ''}; name what is used"
        else:
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
                    yield from self.bind(alias.asname or alias.name, value)

    def is_own(self, node: ast.ImportFrom) -> bool:
        return bool(node.level) or (node.module or "").partition(".")[0] in self.own_modules

    def bind(self, name: str, module: ModuleType) -> Iterator[str]:
        if self.names.setdefault(name, module) is not module:
            yield f"gives the name {name} to two modules"

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


def shared_faults(node: ast.AST, modules: Modules, shared: Collection[str]) -> Iterator[str]:
    """Faults of taking a module from another file of the submission, by an import or as an attribute."""
    if isinstance(node, ast.ImportFrom) and modules.is_own(node):
        yield from (f"imports the module {a.name} from another file; import it here" for a in node.names if a.name in shared)
    elif isinstance(node, ast.Attribute) and node.attr in shared:
        base = node.value
        while isinstance(base, ast.Attribute):
            base = base.value
        if isinstance(base, ast.Name) and base.id in modules.own_names:
            yield f"uses the module {ast.unparse(node)} of another file; import it here"


def refused_attribute(name: str) -> bool:
    return (is_dunder(name) and name not in METHODS) or bool(ATTRIBUTES.fullmatch(name))


def is_dunder(name: str) -> bool:
    return name.startswith("__")


def is_literal(node: ast.expr) -> bool:
    """Whether an expression has a value that can be read without running code."""
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError):
        return False
    return True
