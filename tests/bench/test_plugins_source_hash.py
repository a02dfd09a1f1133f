"""Source hashes of plugins: the files that they cover."""

import hashlib
import sys
from modulefinder import ModuleFinder
from pathlib import Path

import pytest
from plugin_files import written
from support import ROOT, new_registry

from bench import encodings
from bench.plugins.loading import files_of
from bench.plugins.references import absolute, references_in
from bench.plugins.registry import get_encoding
from bench.plugins.source_hash import source_hash
from tasks import InputError

pytestmark = pytest.mark.usefixtures("fresh_registry")


def test_the_hash_of_one_file_is_the_files_own(here):
    content = written(here / "mine.py", "mine")
    assert source_hash(get_encoding("mine.py")) == hashlib.sha256(content).hexdigest()


def test_the_hash_covers_what_a_file_imports_from_its_folder(here):
    def hashed() -> str:
        with new_registry():
            return source_hash(get_encoding("mine.py"))

    imports = "import curve, importlib\nfrom parts.inner import x\nimportlib.import_module('late')"
    written(here / "mine.py", "mine", imports=imports)
    files = {
        "curve.py": "import deeper",
        "deeper.py": "",
        "parts/__init__.py": "",
        "parts/inner.py": "x = 1",
        "late.py": "",
        "unused.py": "",
    }
    for path, text in files.items():
        (here / path).parent.mkdir(exist_ok=True)
        (here / path).write_text(text)
    seen = [hashed()]
    for path in files:
        (here / path).write_text(files[path] + "\n# changed")
        seen.append(hashed())
    assert len(set(seen[:-1])) == len(files), "a change of any part changes the hash"
    assert seen[-1] == seen[-2], "files that are not imported do not count"
    assert not {"curve", "deeper", "parts", "parts.inner", "late"} & sys.modules.keys(), "and none of it stays loaded"
    assert not list(here.rglob("__pycache__"))


def test_two_plugins_may_each_have_a_module_of_one_name(here):
    for folder, value in (("a", 1.0), ("b", 2.0)):
        source = written(here / folder / "mine.py", f"mine_{folder}", imports="import utils").decode()
        (here / folder / "mine.py").write_text(source.replace("= 1.0", "= utils.VALUE"))
        (here / folder / "utils.py").write_text(f"VALUE = {value}")
    assert [encodings.settings(get_encoding(f"{folder}/mine.py")) for folder in "ab"] == [{"strength": 1.0}, {"strength": 2.0}]


def test_the_files_of_a_package_are_those_that_python_imports(here):
    texts = {
        "pkg/__init__.py": "from . import a",
        "pkg/a.py": "from .sub import b\nfrom .sub.c import x\nimport json, torch",
        "pkg/sub/__init__.py": "",
        "pkg/sub/b.py": "from .. import d\ndef late():\n    import pkg.e as e",
        "pkg/sub/c.py": "from ..f import *\nx = 1",
        "pkg/d.py": "",
        "pkg/e.py": "import other",
        "pkg/f.py": "y = 2",
        "pkg/unused.py": "",
        "other.py": "",
    }
    for path, text in texts.items():
        (here / path).parent.mkdir(parents=True, exist_ok=True)
        (here / path).write_text(text)
    finder = ModuleFinder(path=[str(here)])
    finder.import_hook("pkg.a")
    imported = {str(Path(m.__file__).relative_to(here)) for m in finder.modules.values() if m.__file__}
    source = files_of("pkg.a", here / "pkg/a.py")
    assert source.files == {path: texts[path].encode() for path in imported if path.startswith("pkg")}
    assert "other.py" in imported and {"other", "torch", "json"} <= source.outside


def test_names_of_built_in_encodings_are_not_references():
    for name in (*encodings.catalogue(), "rope(base=1.5)", "ssmax(randomised(t5,longest=99),x=True)"):
        assert not references_in(name) and absolute(name, Path("/elsewhere")) == name


def test_paths_are_made_absolute():
    assert absolute("randomised(sub/a.py:B(x=1))", Path("/f")) == "randomised(/f/sub/a.py:B(x=1))"
    assert absolute(" ../a b.py ", Path("/f/g")) == "/f/a b.py"
    assert absolute("randomised(a.py:B(x=1))", Path("/f g")) == "randomised('/f g/a.py:B'(x=1))"
    assert absolute("drope('my dir/a.py')", Path("/f")) == "drope('/f/my dir/a.py')"
    assert absolute("/x/a.py", Path("/f")) == "/x/a.py"
    assert absolute("a.b:C", Path("/f")) == "a.b:C"


def test_the_hash_covers_the_built_in_files_it_uses(here):
    (here / "mine.py").write_text(
        "from dataclasses import replace\nfrom bench.encodings.rope import RoPE\n"
        "class Mine(RoPE):\n    info = replace(RoPE.info, name='mine')\n"
    )
    texts = [(ROOT / "bench/encodings/rope.py").read_bytes(), (here / "mine.py").read_bytes()]
    assert source_hash(get_encoding("mine.py")) == hashlib.sha256(b"".join(texts)).hexdigest()
    wrapped = source_hash(get_encoding("randomised(mine.py)"))
    assert wrapped not in (
        source_hash(get_encoding("randomised(rope)")),
        source_hash(get_encoding("mine")),
    )


def test_a_class_of_a_neighbouring_file_may_be_a_base_class(here):
    written(here / "base_class.py", "base", cls="Base")
    written(here / "mine.py", "mine", imports="from base_class import Base\nEncoding = Base")
    cls = get_encoding("mine.py:Mine")
    texts = [(here / name).read_bytes() for name in ("base_class.py", "mine.py")]
    assert source_hash(cls) == hashlib.sha256(b"".join(texts)).hexdigest()
    with pytest.raises(InputError, match=r"mine.py imports Base from base_class.py; refer to it as base_class.py:Base"):
        get_encoding("mine.py:Base")
