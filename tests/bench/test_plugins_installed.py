"""Plugins written by ``lprime new``, and plugins of installed packages."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from commands import run_command
from plugin_files import source_of_one, written
from support import ROOT, start_lprime, suite_dict

from bench import encodings
from bench.check.run_checks import plugin_sources
from bench.plugins import registry
from bench.plugins.registry import full_name, get_encoding
from tasks import InputError

pytestmark = pytest.mark.usefixtures("fresh_registry")


# --- lprime new


def test_new_writes_a_valid_encoding(here):
    code, printed, err = run_command("new", "far_sight")
    assert (code, err) == (0, "") and "lprime check far_sight.py" in printed
    cls = get_encoding("far_sight.py")
    assert (cls.__name__, cls.info.name, encodings.settings(cls)) == ("FarSight", "far_sight", {"rate": 1.0})
    text = (here / "far_sight.py").read_text()
    assert "my_encoding" not in text and "MyEncoding" not in text
    assert text.count("the line to change first") == 1
    places = [text.index(f"def {hook}(") for hook in encodings.HOOKS]
    assert places == sorted(places), "every hook is explained, in call order"


def test_new_names_what_check_would_refuse(here):
    ada = "--author", "Ada"
    assert "replace the title and the link in info" in run_command("new", "my_encoding", *ada)[1]
    assert "replace the link in info" in run_command("new", "fading__slowly_", *ada)[1]
    assert get_encoding("fading__slowly_.py").info.title == "Fading slowly"


def test_new_keeps_the_texts_that_it_is_given(here):
    assert run_command("new", "fading", "--title", "Beyond MyEncoding")[0] == 0
    assert get_encoding("fading.py").info.title == "Beyond MyEncoding"


@pytest.mark.parametrize("name", ["encoding", "at", "x", "t5_two", "none", "true"])
def test_new_accepts_names_that_the_template_uses(here, name):
    assert run_command("new", name)[0] == 0
    assert get_encoding(f"{name}.py").info.name == name


# --- installed packages


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The example package installed by pip, offline, and packages that are each broken in one way."""
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
    text = (
        source_of_one("fragile", "Fragile")
        + "        print('made')\n        raise KeyError('two\\nlines')\nprint('imported')\n"
    )
    (folder / "site/fragile_module.py").write_text(text)
    return folder / "site"


@pytest.fixture
def site(installed, monkeypatch):
    """Make the installed packages visible in this process."""
    monkeypatch.syspath_prepend(str(installed))
    registry.entry_points.cache_clear()
    yield installed
    registry.entry_points.cache_clear()
    for name in [n for n in sys.modules if n.startswith(("lprime_recency", "liar_", "fragile_"))]:
        del sys.modules[name]


def test_installed_plugins_are_listed_without_running_them_and_broken_ones_break_nothing(site, monkeypatch):
    for name in (
        "lprime_recency",
        "lprime_recency.encoding",
        "liar_module",
        "fragile_module",
    ):  # of tests in this process before
        monkeypatch.delitem(sys.modules, name, raising=False)
    code, printed, err = run_command("list", "encodings", "--json")
    assert code == 0, err
    items = {(item["name"], item.get("distribution")): item for item in json.loads(printed)}
    assert items["rope", None]["family"] == "rotary", "the built-in encoding is unchanged"
    assert {key[0] for key in items if key[1]} == {"recency", "broken", "rope", "twin", "liar", "fragile"}
    assert "lprime-recency 0.1.0" in run_command("list", "encodings")[1]
    assert not {"lprime_recency", "liar_module", "fragile_module"} & set(sys.modules)
    assert full_name("randomised(recency(reach=2))") == "randomised(recency(reach=2.0))"
    reasons = {
        "broken": "ModuleNotFoundError: No module named 'no_such_thing'",
        "twin": "two plugins are named 'twin': first 1.0 and second 1.0",
        "liar": "names itself 'honest'",
        "fragile": "KeyError: 'two\\nlines'",
    }
    for name, reason in reasons.items():
        assert reason in run_command("show", name)[2]
    assert '"parameters": 4' in run_command("show", "recency", "--json")[1]
    assert "did you mean 'recency'?" in run_command("run", "quick", "--encoding", "recenzy")[2]


def test_an_installed_plugin_inside_the_wrapper_of_a_file_is_read_too(site, here):
    written(here / "mine.py", "mine")
    found = [sorted(source.files) for source in plugin_sources("mine.py(recency)")]
    assert found == [["mine.py"], [f"lprime_recency/{name}.py" for name in ("__init__", "curve", "encoding")]]


def test_the_source_of_an_import_path_is_read_however_python_finds_it(monkeypatch):
    """``pip install -e`` adds a finder to Python, not a folder."""
    folder = str(ROOT / "tests/plugins/lprime_recency")

    def find_spec(name, path=None, target=None):
        return PathFinder.find_spec(name, [folder]) if name == "lprime_recency" else None

    with pytest.raises(InputError, match=r"Python finds no file of a module 'lprime_recency.encoding'"):
        plugin_sources("lprime_recency.encoding:Recency")
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, SimpleNamespace(find_spec=find_spec)])
    (source,) = plugin_sources("lprime_recency.encoding:Recency")
    assert (str(source.root), len(source.files)) == (folder, 3)


def test_a_file_cannot_take_the_name_of_an_installed_plugin(site, here):
    written(here / "mine.py", "recency")
    with pytest.raises(InputError, match=r"two plugins are named 'recency': lprime-recency 0\.1\.0 and mine\.py"):
        get_encoding("mine.py")
    installed = get_encoding("recency")
    assert get_encoding("lprime_recency.encoding:Recency") is installed
    assert registry.references(installed) == (), "a worker finds it by its name"
    assert "that of an installed plugin (lprime-recency 0.1.0)" in run_command("new", "recency")[2]


def test_plugins_run_and_their_results_are_stored_under_their_names(installed, here):
    content = written(here / "plugin/mine.py", "mine", imports="import curve")
    (here / "plugin/curve.py").write_text("# none")
    (here / "tiny.yaml").write_text(yaml.safe_dump(suite_dict(encodings=["plugin/mine.py", "nope"])))
    chosen = [
        x for name in ("plugin/mine.py(strength=2)", "rope", "randomised(recency(reach=2))") for x in ("--encoding", name)
    ]
    path = os.pathsep.join([str(installed), str(ROOT)])
    arguments = ("run", "tiny.yaml", "--out", "runs", "--task", "copying", "--workers", 1, *chosen)
    process = start_lprime(*arguments, env=os.environ | {"PYTHONPATH": path})
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    records = [json.loads(path.read_text())["encoding"] for path in here.rglob("result.json")]
    found = {record["name"]: record for record in records}
    assert found.keys() == {"mine(strength=2.0)", "rope", "randomised(recency(reach=2.0))"}
    mine = found["mine(strength=2.0)"]
    assert mine["source_sha256"] == hashlib.sha256(b"# none" + content).hexdigest()
    assert mine["settings"] == {"strength": 2.0}
    files = b"".join((installed / "lprime_recency" / name).read_bytes() for name in ("__init__.py", "curve.py", "encoding.py"))
    outer, inner = (ROOT / "bench/encodings/randomised.py").read_bytes(), hashlib.sha256(files).hexdigest()
    assert found["randomised(recency(reach=2.0))"]["source_sha256"] == hashlib.sha256(outer + inner.encode()).hexdigest()
    code, printed, _ = run_command("status", "tiny.yaml", "--out", "runs", "--json")
    assert code == 0 and {row["encoding"] for row in json.loads(printed)} == {
        "mine",
        "nope",
        "mine(strength=2.0)",
        "randomised(recency(reach=2.0))",
        "rope",
    }
