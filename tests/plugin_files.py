"""Helpers of the tests of plugins: files that define an encoding."""

from pathlib import Path

ONE = '''
"""One encoding."""
from bench.encodings import Encoding, Info
{imports}
class {cls}(Encoding):
    info = Info("{name}", "none", "t", "a", 2026, "https://a.org", formula="f", past="p", provenance="o", shift_invariant=True)
    def __init__(self, setup, *, strength: float = 1.0):
        super().__init__(setup)
        self.strength = strength
'''


def source_of_one(name: str = "mine", cls: str = "Mine", imports: str = "") -> str:
    """Source of a file that defines one encoding."""
    return ONE.format(name=name, cls=cls, imports=imports)


def written(path: Path, name: str, cls: str = "Mine", imports: str = "") -> bytes:
    """Write a file that defines one encoding, and return its content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source_of_one(name, cls, imports))
    return path.read_bytes()
