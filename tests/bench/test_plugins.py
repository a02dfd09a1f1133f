"""Encodings from elsewhere: by file, by import path, by installation; what they are called, hashed as, and run as."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from modulefinder import ModuleFinder
from pathlib import Path

import pytest
import yaml
from support import ROOT, lprime, suite_dict

from bench import encodings, plugins
from bench.check.subject import Subject
from bench.cli import main
from bench.imports import files_of
from bench.references import absolute, has_reference
from bench.runs import plan
from bench.suite import Suite, load_suite, validated
from bench.worker import Order
from tasks import InputError

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


@pytest.fixture(autouse=True)
def nothing_loaded(monkeypatch):
    """Each test loads plugins anew, as a new process would."""
    monkeypatch.setattr(plugins, "loaded", plugins.Loaded())


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(path: Path, name: str, cls: str = "Mine", imports: str = "") -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(ONE.format(name=name, cls=cls, imports=imports))
    return path.read_bytes()


def command(capsys: pytest.CaptureFixture, *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as done:
        main([str(a) for a in arguments])
    return done.value.code, *capsys.readouterr()


# --- references


@pytest.mark.parametrize(
    "reference", ["mine.py", "./mine.py", "mine.py:Mine", "sub/mine.py", "{here}/mine.py", "a (b), c/mine.py"]
)
def test_a_file_is_an_encoding_under_its_own_name(here, reference):
    reference = reference.format(here=here)
    written(here / reference.removesuffix(":Mine"), "own_name")
    cls = encodings.get(reference)
    assert cls.info.name == "own_name"
    assert encodings.get("own_name") is cls, "known by its name from now on"
    assert encodings.get(f" {reference} ") is cls, "loaded once"


def test_a_reference_stands_wherever_a_name_can(here):
    written(here / "mine.py", "mine")
    written(here / "sub/other.py", "other", cls="Other")
    assert encodings.get("mine.py(strength=2)").info.name == "mine(strength=2.0)"
    assert encodings.get("randomised(sub/other.py:Other)").info.name == "randomised(other)"
    assert encodings.get("ssmax(randomised(mine.py(strength=3.0)))").info.name == "ssmax(randomised(mine(strength=3.0)))"


def test_a_wrapper_may_come_from_a_file(here):
    source = ONE.format(name="wraps", cls="Wraps", imports="").replace("Encoding", "Wrapper")
    (here / "wraps.py").write_text(source)
    assert encodings.get("wraps.py(rope)").info.name == "wraps(rope)"
    with pytest.raises(InputError, match="wraps wraps another encoding; expected wraps"):
        encodings.get("wraps.py")


def test_an_import_path_is_looked_up_here_too(here):
    written(here / "some_package/part.py", "in_a_package")
    (here / "some_package/__init__.py").write_text("")
    try:
        assert encodings.get("some_package.part:Mine").info.name == "in_a_package"
        assert plugins.references(encodings.get("in_a_package")) == ("some_package.part:Mine",)
    finally:
        for name in ("some_package", "some_package.part"):
            sys.modules.pop(name, None)
        sys.path.remove(str(here))


def one(name: str = "mine", cls: str = "Mine") -> str:
    return ONE.format(name=name, cls=cls, imports="")


FAULTS = {
    "misspelt": ("my_encodin.py", one(), "No such file or directory; did you mean 'my_encoding.py'?"),
    "without .py": ("my_encoding", one(), "unknown encoding 'my_encoding'; did you mean 'my_encoding.py'?"),
    "no such class": ("my_encoding.py:Mime", one(), "my_encoding.py has no 'Mime'; did you mean 'Mine'?"),
    "no such module": ("no_such_module:Mine", one(), "no_such_module:Mine cannot be imported: ModuleNotFoundError"),
    "no encoding": ("my_encoding.py", "X = 1", "my_encoding.py defines no encoding; expected a subclass"),
    "another thing": ("my_encoding.py:X", "X = 1", "my_encoding.py:X is no encoding; expected a subclass"),
    "no syntax": ("my_encoding.py", "class :", "SyntaxError: invalid syntax (my_encoding.py, line 1)"),
    "breaks": ("my_encoding.py", "a = 1\nraise ValueError('no')", "imported (my_encoding.py, line 2): ValueError: no"),
    "exits": ("my_encoding.py", "raise SystemExit(3)", "cannot be imported (my_encoding.py, line 1): SystemExit: 3"),
    "relative": ("my_encoding.py", "from .a import b", "a file has no package: import `name` for `.name`"),
    "taken": ("my_encoding.py", one("rope"), "the name 'rope' is that of a built-in encoding"),
    "no name": ("my_encoding.py", one("../x"), "name is of a-z, 0-9 and _, starts with a letter"),
    "a keyword": ("my_encoding.py", one("lambda"), "is no keyword, got 'lambda'"),
    "incomplete": ("my_encoding.py", one().replace('past="p", ', ""), "missing 1 required positional argument: 'past'"),
    "two": ("my_encoding.py", one("x", "B") + one("y", "C"), "defines 2 encodings (B, C); name one, as in my_encoding.py:B"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_no_plugin_is_refused(here, fault):
    reference, source, message = FAULTS[fault]
    (here / "my_encoding.py").write_text(source)
    with pytest.raises(InputError) as caught:
        encodings.get(reference)
    assert message in str(caught.value)
    assert not plugins.loaded.plugins


def test_what_is_no_plugin_is_one_line_on_the_command_line(here, capsys):
    (here / "my_encoding.py").write_text("raise ValueError('two\\nlines')")
    for arguments in (("show", "my_encoding.py"), ("run", "quick", "--encoding", "my_encoding.py")):
        code, printed, err = command(capsys, *arguments)
        assert (code, printed, err.count("\n")) == (2, "", 1)
        assert "my_encoding.py cannot be imported (my_encoding.py, line 1): ValueError: two lines" in err


def test_show_tells_of_a_file(here, capsys):
    written(here / "mine.py", "mine")
    code, printed, _ = command(capsys, "show", "mine.py", "--json", "--no-measure")
    assert code == 0
    (item,) = json.loads(printed)
    assert (item["name"], item["settings"]) == ("mine", {"strength": 1.0})


def test_two_plugins_of_one_name_are_both_named(here):
    written(here / "one.py", "same")
    written(here / "two.py", "same")
    encodings.get("one.py")
    with pytest.raises(InputError, match=r"two plugins are named 'same': one\.py and two\.py; rename one"):
        encodings.get("two.py")
    assert encodings.get("same") is encodings.get("one.py"), "the first is as it was"


# --- source hashes


def test_the_hash_of_one_file_is_the_files_own(here):
    content = written(here / "mine.py", "mine")
    assert encodings.source_hash(encodings.get("mine.py")) == hashlib.sha256(content).hexdigest()


def test_the_hash_covers_what_a_file_imports_from_its_folder(here, monkeypatch):
    def hashed() -> str:
        monkeypatch.setattr(plugins, "loaded", plugins.Loaded())
        return encodings.source_hash(encodings.get("mine.py"))

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
    assert len(set(seen[:-1])) == len(files), "each change of a part is a change"
    assert seen[-1] == seen[-2], "but not of what is not imported"
    assert not {"curve", "deeper", "parts", "parts.inner", "late"} & sys.modules.keys(), (
        "and none of it is left for others to meet"
    )
    assert not list(here.rglob("__pycache__"))


def test_two_plugins_may_each_have_a_module_of_one_name(here):
    for folder, value in (("a", 1.0), ("b", 2.0)):
        source = written(here / folder / "mine.py", f"mine_{folder}", imports="import utils").decode()
        (here / folder / "mine.py").write_text(source.replace("= 1.0", "= utils.VALUE"))
        (here / folder / "utils.py").write_text(f"VALUE = {value}")
    assert [encodings.settings(encodings.get(f"{folder}/mine.py")) for folder in "ab"] == [{"strength": 1.0}, {"strength": 2.0}]


def test_the_files_of_a_package_are_those_that_python_would_import(here):
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


@pytest.mark.parametrize("name", [*encodings.catalogue(), "rope(base=1.5)", "ssmax(randomised(t5,longest=99),x=True)"])
def test_names_of_what_is_here_are_no_references(name):
    assert not has_reference(name) and absolute(name, Path("/elsewhere")) == name


def test_paths_are_taken_from_a_folder():
    assert absolute("randomised(sub/a.py:B(x=1))", Path("/f")) == "randomised(/f/sub/a.py:B(x=1))"
    assert absolute(" ../a b.py ", Path("/f/g")) == "/f/a b.py"
    assert absolute("/x/a.py", Path("/f")) == "/x/a.py"
    assert absolute("a.b:C", Path("/f")) == "a.b:C"


def test_the_hash_covers_the_built_in_it_is_made_from(here):
    (here / "mine.py").write_text(
        "from dataclasses import replace\nfrom bench.encodings.rope import RoPE\n"
        "class Mine(RoPE):\n    info = replace(RoPE.info, name='mine')\n"
    )
    texts = [(ROOT / "bench/encodings/rope.py").read_bytes(), (here / "mine.py").read_bytes()]
    assert encodings.source_hash(encodings.get("mine.py")) == hashlib.sha256(b"".join(texts)).hexdigest()
    wrapped = encodings.source_hash(encodings.get("randomised(mine.py)"))
    assert wrapped not in (
        encodings.source_hash(encodings.get("randomised(rope)")),
        encodings.source_hash(encodings.get("mine")),
    )


def test_a_class_from_beside_may_be_inherited_from(here):
    written(here / "beside.py", "base", cls="Base")
    written(here / "mine.py", "mine", imports="from beside import Base\nEncoding = Base")
    cls = encodings.get("mine.py:Mine")
    texts = [(here / name).read_bytes() for name in ("beside.py", "mine.py")]
    assert encodings.source_hash(cls) == hashlib.sha256(b"".join(texts)).hexdigest()
    assert {Path(path).name for path in Subject(cls).files} == {"beside.py", "mine.py"}
    with pytest.raises(InputError, match=r"mine.py has Base from beside, beside it; name it as in beside.py:Base"):
        encodings.get("mine.py:Base")


# --- runs


def suite_of(*names: str) -> Suite:
    return validated(Suite, suite_dict(encodings=list(names)), "suite")


def test_a_changed_source_stops_the_run(here, monkeypatch):
    written(here / "mine.py", "mine")
    encodings.get("mine.py")
    (order,) = (Order.of(run) for run in plan(suite_of("nope"), ["mine"], ["copying"]))
    assert order.plugins == (f"{here.resolve()}/mine.py:Mine",)
    monkeypatch.setattr(plugins, "loaded", plugins.Loaded())  # another process
    monkeypatch.chdir("/")
    order.prepare()
    assert encodings.get(order.encoding).info.name == "mine"
    (here / "mine.py").write_text((here / "mine.py").read_text() + "# another\n")
    order.prepare()  # a process goes on with what it has loaded
    monkeypatch.setattr(plugins, "loaded", plugins.Loaded())
    with pytest.raises(
        InputError, match=r"the source of mine changed after this run was asked for \(hash \w{12} then, \w{12} now\)"
    ):
        order.prepare()


def test_a_built_in_is_held_to_its_source_too(monkeypatch):
    (order,) = (Order.of(run) for run in plan(suite_of("rope"), ["rope"], ["copying"]))
    assert (order.plugins, order.source) == ((), encodings.source_hash(encodings.get("rope")))
    with monkeypatch.context() as changed:
        changed.setattr(Path, "read_bytes", lambda path: b"another")
        order.prepare()  # a process goes on with what it has loaded
    with pytest.raises(InputError, match="the source of rope changed"):
        replace(order, source="0" * 64).prepare()


def test_an_order_for_what_is_not_there_says_so_where_it_is_run():
    (order,) = (Order.of(run) for run in plan(suite_of("nope"), ["gone"], ["copying"]))
    with pytest.raises(InputError, match="unknown encoding 'gone'"):
        order.prepare()


def test_a_suite_names_files_from_where_it_stands(here, monkeypatch):
    written(here / "suites/mine.py", "mine")
    names = ["rope", "mine.py", "randomised(mine.py)"]
    (here / "suites/own.yaml").write_text(yaml.safe_dump(suite_dict(encodings=names)))
    suite = load_suite("suites/own.yaml")
    monkeypatch.chdir("/")
    assert suite.encoding_names == ["rope", "mine", "randomised(mine)"]
    assert suite.fingerprint == suite_of("rope").fingerprint


def test_a_change_while_the_grid_is_at_work_fails_the_run_with_its_reason(here, capsys, monkeypatch):
    from bench.pool import LocalPool

    written(here / "mine.py", "mine")
    (here / "tiny.yaml").write_text(yaml.safe_dump(suite_dict()))
    start = LocalPool.start

    def changed(pool, *arguments):
        (here / "mine.py").write_text((here / "mine.py").read_text() + "# another\n")
        start(pool, *arguments)

    monkeypatch.setattr(LocalPool, "start", changed)
    code, printed, _ = command(capsys, "run", "tiny.yaml", "--task", "copying", "--encoding", "mine.py", "--workers", 1)
    assert code == 1
    assert "the source of mine changed after this run was asked for" in printed
    assert not list(here.rglob("result.json"))


def test_a_hook_that_exits_fails_its_run_and_does_not_begin_it_for_ever(here, capsys):
    quits = "    def prepare(self, at):\n        raise SystemExit(0)\n"
    (here / "mine.py").write_text(written(here / "mine.py", "mine").decode() + quits)
    (here / "tiny.yaml").write_text(yaml.safe_dump(suite_dict()))
    code, printed, _ = command(capsys, "run", "tiny.yaml", "--task", "copying", "--encoding", "mine.py", "--workers", 1)
    assert code == 1
    assert "SystemExit: 0" in printed
    (failure,) = here.rglob("failure.json")
    assert f"traceback: {failure.relative_to(here)}" in printed


@pytest.mark.parametrize(
    ("method", "raised"),
    [
        ("    def __init__(self, setup):\n        raise KeyError('x\\ny')\n", "KeyError"),
        ("    def __init__(self, setup, rate):\n        super().__init__(setup)\n", "TypeError"),
        ("    def rotate(self, q, k, at):\n        return q.nothing, k\n", "AttributeError"),
        ("    def bias(self, q, k, at):\n        raise SystemExit(0)\n", "SystemExit: 0"),
    ],
)
def test_what_breaks_at_work_is_one_line(here, capsys, method, raised):
    (here / "mine.py").write_text(written(here / "mine.py", "mine").decode() + method)
    (here / "tiny.yaml").write_text(yaml.safe_dump(suite_dict()))
    for arguments in (["show", "mine.py"], ["run", "tiny.yaml", "--profile", "--encoding", "mine.py"]):
        code, _, err = command(capsys, *arguments)
        last = err.splitlines()[-1]
        assert code == 2 and last.startswith("lprime: mine breaks at work") and raised in last
        assert raised == "TypeError" or "(mine.py, line " in last  # its caller is ours


def test_an_unknown_ranking_is_refused_before_anything_runs(here, capsys):
    (here / "mine.py").write_text(written(here / "mine.py", "mine").decode().replace("shift_invariant=True", 'ranking="long"'))
    for reference in ("mine.py", "randomised(mine.py)"):
        code, _, err = command(capsys, "show", reference, "--no-measure")
        assert (code, err.count("\n")) == (2, 1) and "'long'; did you mean 'longer'?" in err


# --- lprime new


def test_new_writes_an_encoding_that_is_found(here, capsys):
    code, printed, err = command(capsys, "new", "far_sight")
    assert (code, err) == (0, "") and "lprime check far_sight.py" in printed
    cls = encodings.get("far_sight.py")
    assert (cls.__name__, cls.info.name, encodings.settings(cls)) == ("FarSight", "far_sight", {"rate": 1.0})
    text = (here / "far_sight.py").read_text()
    assert "my_encoding" not in text and "MyEncoding" not in text
    assert text.count("the line to change first") == 1
    places = [text.index(f"def {hook}(") for hook in encodings.HOOKS]
    assert places == sorted(places), "every hook is explained, in the order in which data meets them"


@pytest.mark.parametrize("name", ["encoding", "at", "x", "t5_two", "none", "true"])
def test_new_knows_no_name_it_would_stumble_over(here, capsys, name):
    assert command(capsys, "new", name)[0] == 0
    assert encodings.get(f"{name}.py").info.name == name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("there", "there.py is there already; move it away"),
        ("rope", "the name 'rope' is that of a built-in encoding"),
        ("random", "random.py would hide the Python module 'random'"),
        ("torch", "torch.py would hide the Python module 'torch'"),
        ("My_Encoding", "name is of a-z, 0-9 and _"),
        ("../up", "name is of a-z, 0-9 and _"),
        ("lambda", "is no keyword"),
        ("a.py", "name is of a-z, 0-9 and _"),
        ("", "name is of a-z, 0-9 and _"),
    ],
)
def test_new_refuses(here, capsys, name, message):
    (here / "there.py").write_text("kept")
    code, printed, err = command(capsys, "new", name)
    assert (code, printed, err.count("\n")) == (2, "", 1)
    assert message in err
    assert [(p.name, p.read_text()) for p in here.iterdir()] == [("there.py", "kept")]


# --- what is installed


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The example package through a real pip, offline; beside it packages that are broken in one way each."""
    folder = tmp_path_factory.mktemp("installed")
    shutil.copytree(ROOT / "tests/plugins/lprime_recency", folder / "source")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", folder / "site", folder / "source"], check=True, capture_output=True, timeout=120)
    for package, point in {
        "broken": "broken = broken_module:Broken",
        "taker": "rope = taker_module:Rope",
        "first": "twin = twin_module:Twin",
        "second": "twin = twin_module:Twin",
        "liar": "liar = liar_module:Liar",
        "fragile": "fragile = fragile_module:Fragile",
    }.items():
        info = folder / f"site/{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[lprime.encodings]\n{point}\n")
    (folder / "site/broken_module.py").write_text("import no_such_thing")
    written(folder / "site/liar_module.py", "honest", cls="Liar")
    text = one("fragile", "Fragile") + "        print('made')\n        raise KeyError('two\\nlines')\nprint('imported')\n"
    (folder / "site/fragile_module.py").write_text(text)
    return folder / "site"


@pytest.fixture
def site(installed, monkeypatch):
    """This process sees what is installed."""
    monkeypatch.syspath_prepend(str(installed))
    plugins.entry_points.cache_clear()
    yield installed
    plugins.entry_points.cache_clear()
    for name in [n for n in sys.modules if n.startswith(("lprime_recency", "liar_", "fragile_"))]:
        del sys.modules[name]


def test_installed_plugins_are_listed_and_broken_ones_break_nothing(site, capsys):
    code, printed, err = command(capsys, "list", "encodings", "--json")
    assert code == 0, err
    items = {(item["name"], item.get("distribution")): item for item in json.loads(printed)}
    assert items["recency", "lprime-recency 0.1.0"]["parameters"] == 4
    assert items["rope", None]["family"] == "rotary", "the built-in one is what it was"
    reasons = {
        ("broken", "broken 1.0"): "ModuleNotFoundError: No module named 'no_such_thing'",
        ("rope", "taker 1.0"): "the name 'rope' is that of a built-in encoding",
        ("twin", "first 1.0 and second 1.0"): "two plugins are named 'twin': first 1.0 and second 1.0",
        ("liar", "liar 1.0"): "names itself 'honest'",
        ("fragile", "fragile 1.0"): "KeyError: 'two\\nlines'",
    }
    for key, reason in reasons.items():
        assert reason in items[key]["broken"]
    _, table, _ = command(capsys, "list", "encodings")
    assert "lprime-recency 0.1.0" in table and "broken plugin" in table and "no_such_thing" in table
    assert "two plugins are named 'twin'" in command(capsys, "show", "twin", "--no-measure")[2]
    assert "did you mean 'recency'?" in command(capsys, "run", "quick", "--encoding", "recenzy")[2]


def test_a_file_may_not_take_an_installed_name_unless_it_is_the_same(site, here, capsys):
    written(here / "mine.py", "recency")
    with pytest.raises(InputError, match=r"two plugins are named 'recency': lprime-recency 0\.1\.0 and mine\.py"):
        encodings.get("mine.py")
    installed = encodings.get("recency")
    assert encodings.get("lprime_recency.encoding:Recency") is installed
    assert plugins.references(installed) == (), "a worker finds it by its name"
    assert "that of an installed plugin (lprime-recency 0.1.0)" in command(capsys, "new", "recency")[2]


def test_plugins_run_beside_a_built_in_and_are_filed_under_their_names(installed, here, capsys):
    content = written(here / "plugin/mine.py", "mine", imports="import curve")
    (here / "plugin/curve.py").write_text("# none")
    (here / "tiny.yaml").write_text(yaml.safe_dump(suite_dict(encodings=["plugin/mine.py", "nope"])))
    chosen = [
        x for name in ("plugin/mine.py(strength=2)", "rope", "randomised(recency(reach=2))") for x in ("--encoding", name)
    ]
    path = os.pathsep.join([str(installed), str(ROOT)])
    arguments = ("run", "tiny.yaml", "--out", "runs", "--task", "copying", "--workers", 1, *chosen)
    done = lprime(*arguments, env=os.environ | {"PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    records = [json.loads(path.read_text())["encoding"] for path in here.rglob("result.json")]
    found = {record["name"]: record for record in records}
    assert found.keys() == {"mine(strength=2.0)", "rope", "randomised(recency(reach=2.0))"}
    mine = found["mine(strength=2.0)"]
    assert mine["source_sha256"] == hashlib.sha256(b"# none" + content).hexdigest()
    assert mine["settings"] == {"strength": 2.0}
    files = b"".join((installed / "lprime_recency" / name).read_bytes() for name in ("__init__.py", "curve.py", "encoding.py"))
    outer, inner = (ROOT / "bench/encodings/randomised.py").read_bytes(), hashlib.sha256(files).hexdigest()
    assert found["randomised(recency(reach=2.0))"]["source_sha256"] == hashlib.sha256(outer + inner.encode()).hexdigest()
    code, printed, _ = command(capsys, "status", "tiny.yaml", "--out", "runs", "--json")
    assert code == 0 and {row["encoding"] for row in json.loads(printed)} == {
        "mine",
        "nope",
        "mine(strength=2.0)",
        "randomised(recency(reach=2.0))",
        "rope",
    }
