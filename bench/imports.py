"""The files a module is made of, told from its import statements: what an encoding's source hash covers.

Read off the source rather than off what happens to be loaded, so that every process and every machine finds the same files.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

OURS = ("bench", "tasks", "leaderboard", "slurm")
"""What the harness is made of, which no plugin's source includes, wherever it may lie."""


@dataclass
class Source:
    """What a module is made of, as it was when it was looked at."""

    root: Path
    """The folder that holds all of it."""
    files: dict[str, bytes] = field(default_factory=dict)
    """Path below ``root`` → content."""
    outside: set[str] = field(default_factory=set)
    """Names of modules from elsewhere that it imports (and of what it imports from them)."""

    @property
    def paths(self) -> list[Path]:
        return [self.root / path for path in self.files]


def files_of(name: str, file: Path, content: bytes | None = None, alone: bool = False) -> Source:
    """A module's file and those it imports, directly or through others, from the same package or folder.

    Imports that are put together at run time (``importlib.import_module``) are not seen.

    Arguments:
        name: of the module, with dots; its first part is a package, or without dots a module by itself.
        content: of its file, where that was read already.
        alone: the module stands in a folder with others that belong to it, rather than in a package of its own.
    """
    depth = name.count(".") + (file.name == "__init__.py")
    source, top = Source(file.parents[depth]), name.partition(".")[0]
    seen: set[str] = set()
    pending = [*prefixes(name)]
    while pending:
        module = pending.pop()
        if module in seen:
            continue
        seen.add(module)
        path = file if module == name else find(source.root, module)
        first = module.partition(".")[0]
        if path is None or first in OURS or not (alone or first == top):
            source.outside.add(module)
            continue
        text = content if module == name and content is not None else path.read_bytes()
        source.files[path.relative_to(source.root).as_posix()] = text
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        pending += imported(text, package)
    return source


def find(root: Path, module: str) -> Path | None:
    """The file of a module below ``root``."""
    base = root.joinpath(*module.split("."))
    return next((path for path in (base / "__init__.py", base.with_name(base.name + ".py")) if path.is_file()), None)


def prefixes(name: str) -> Iterator[str]:
    """``a``, ``a.b`` and ``a.b.c`` of ``a.b.c``: importing the last imports all of them."""
    steps = name.split(".")
    return (".".join(steps[: n + 1]) for n in range(len(steps)))


def imported(content: bytes, package: str) -> Iterator[str]:
    """Every name that may be a module and is imported anywhere in a source, inside of functions too."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return  # a compiled module, say: its bytes are all there is to know
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from prefixes(alias.name)
        elif isinstance(node, ast.ImportFrom):
            steps = package.split(".") if package else []
            above = steps[: len(steps) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            if base:
                yield from prefixes(base)
            for alias in node.names:
                yield f"{base}.{alias.name}" if base else alias.name
