"""What is unusual in the source of an encoding: lines for the maintainer who reads it. Nothing here refuses an honest encoding.

No rule about source text keeps out code that is made to cheat; a reader does. The reader needs to know where to look.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping

from bench.text_rules import invisible_character

LONG_LINE, LONG_STRING, MANY_BYTES, MANY_NUMBERS = 128, 200, 20_000, 300
USUAL = {"torch", "numpy", "jaxtyping", "bench", "lprime", "tasks", "math", "typing", "dataclasses", "functools", "collections"}
"""Modules that encodings usually import."""
WORDS = ("eval", "exec", "compile", "getattr", "setattr", "globals", "__import__", "open", "isinstance", "subprocess", "ctypes")
LENGTHS = ("train_tokens", "longest_tokens", "train_length", "longest_length", "symbols")
"""Fields of ``Setup`` by which code can tell tasks apart."""


def unusual_lines(sources: Mapping[str, bytes]) -> list[str]:
    """A line for each thing to look at, as ``my_encoding.py, line 12: …``.

    Arguments:
        sources: path → content.
    """
    return [f"{path}{line}" for path in sorted(sources) for line in of_file(sources[path])]


def of_file(content: bytes) -> Iterator[str]:
    if len(content) > MANY_BYTES:
        yield f": {len(content):,} bytes"
    try:
        text = content.decode("utf-8")
        tree = ast.parse(text)
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (ValueError, SyntaxError, RecursionError, tokenize.TokenError) as error:
        yield f": is not Python in UTF-8 ({type(error).__name__})"
        return
    for number, line in enumerate(text.splitlines(), 1):
        if character := invisible_character(line, allowed="\t"):
            yield f", line {number}: an invisible character (U+{ord(character):04X})"
        if len(line) > LONG_LINE:
            yield f", line {number}: {len(line)} characters"
    numbers = sum(token.type == tokenize.NUMBER for token in tokens)
    if numbers > MANY_NUMBERS:
        yield f": {numbers:,} numbers"
    for token in tokens:
        where = f", line {token.start[0]}"
        if token.type == tokenize.STRING and re.search(r"\\[xuUN0]", token.string):
            yield f"{where}: escapes in {token.string!r:.60}"
        if token.type == tokenize.STRING and len(token.string) > LONG_STRING and not token.string.startswith('"""'):
            yield f"{where}: a string of {len(token.string)} characters"
        if token.type == tokenize.STRING and re.match("[rR]?[bB]", token.string):
            yield f"{where}: bytes"
        if token.type == tokenize.NAME and (token.string in (*WORDS, *LENGTHS) or not token.string.isascii()):
            yield f"{where}: {token.string}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            for name in names if not getattr(node, "level", 0) else ():
                if (top := name.partition(".")[0]) not in USUAL:
                    kind = "standard library" if top in sys.stdlib_module_names else "other package"
                    yield f", line {node.lineno}: imports {name} ({kind})"
