"""Encodings from files and installed packages: references, errors, source hashes and runs."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from commands import printed as printed_by
from commands import refused, run_command
from plugin_files import ONE, source_of_one, written
from support import ROOT, new_registry, start_lprime, suite_dict

from bench import encodings
from bench.check.run_checks import plugin_paths
from bench.plugins import registry
from bench.plugins.references import absolute, references_in
from bench.plugins.registry import get_encoding, is_built_in
from bench.plugins.source_hash import source_hash
from bench.runs.run import plan_runs
from bench.runs.worker import RunRequest, Source
from bench.suites.suite import Suite, load_suite, validated
from tasks import InputError

pytestmark = pytest.mark.usefixtures("fresh_registry")


# --- references


@pytest.mark.parametrize("reference", ["mine.py", "./mine.py", "mine.py:Mine", "{here}/mine.py", "a (b), c/mine.py"])
def test_a_file_is_an_encoding_under_its_own_name(here, reference):
    reference = reference.format(here=here)
    written(here / reference.removesuffix(":Mine"), "own_name")
    cls = get_encoding(reference)
    assert cls.info.name == "own_name"
    assert get_encoding("own_name") is get_encoding(f" {reference} ") is cls, "loaded once, and then known by its name"


def test_a_reference_can_be_used_wherever_a_name_can(here):
    written(here / "mine.py", "mine")
    written(here / "sub/other.py", "other", cls="Other")
    assert get_encoding("randomised(sub/other.py:Other)").info.name == "randomised(other)"
    assert references_in(absolute("randomised(mine.py)", Path("/o'neil"))) == ["/o'neil/mine.py"]
    assert get_encoding("ssmax(randomised(mine.py(strength=3)))").info.name == "ssmax(randomised(mine(strength=3.0)))"
    (here / "wraps.py").write_text(ONE.format(name="wraps", cls="Wraps", imports="").replace("Encoding", "Wrapper"))
    assert get_encoding("wraps.py(mine.py)").info.name == "wraps(mine)"


def test_paths_are_made_absolute_and_names_stay():
    for text, expected in {
        "randomised(sub/a.py:B(x=1))": "randomised('/f g/sub/a.py:B'(x=1))",
        " ../a b.py ": "/a b.py",
        "drope('my dir/a.py')": "drope('/f g/my dir/a.py')",
        "/x/a.py": "/x/a.py",
    }.items():
        assert absolute(text, Path("/f g")) == expected
    for name in (*encodings.catalogue(), "rope(base=1.5)", "ssmax(randomised(t5,longest=99),x=True)"):
        assert not references_in(name) and absolute(name, Path("/elsewhere")) == name


def test_built_in_names():
    assert all(map(is_built_in, encodings.catalogue())) and is_built_in("ssmax(randomised(rope(base=1.5)))")
    assert not any(map(is_built_in, ["mine", "randomised(mine)", "", "(" * 5000, "rope)", "a.b"]))


def test_a_wrong_name_is_answered_with_the_nearest_match(here):
    (here / "more.py").write_text(
        source_of_one("first", "First") + "class Second(First):\n    info = Info('second', *['x'] * 3, 1, *['x'] * 4)\n"
    )
    (here / "deep.py").write_text(f"x = {'-' * 20_000}1")
    (here / "none.py").write_text("x = 1")
    for text, message in {
        "more.py": "more.py defines 2 encodings (First, Second); name one, as in more.py:First",
        "more.py:Secnd": "unknown class of more.py 'Secnd'; did you mean 'Second'?",
        "none.py": "none.py defines no encoding",
        "deep.py": "deep.py cannot be imported: ",
        "mor.py": "cannot read encoding mor.py: No such file or directory; did you mean 'more.py'?",
        "more.py:First(strenth=1)": "unknown setting of first 'strenth'; did you mean 'strength'?",
        "RoPE": "unknown encoding 'RoPE'; did you mean 'rope'?",
        "more": "unknown encoding 'more'; did you mean 'more.py'?",
    }.items():
        with pytest.raises(InputError, match=re.escape(message)):
            get_encoding(text)


def test_a_duplicate_name_is_rejected(here):
    written(here / "one.py", "same")
    written(here / "two.py", "same")
    first = get_encoding("one.py")
    with pytest.raises(InputError, match=r"two plugins are named 'same': one\.py and two\.py; rename one"):
        get_encoding("two.py")
    assert get_encoding("same") is first


# --- source hashes


def test_the_hash_of_a_file_is_that_of_its_content_and_it_imports_no_neighbour(here):
    content = written(here / "mine.py", "mine")
    assert source_hash(get_encoding("mine.py")) == hashlib.sha256(content).hexdigest()
    written(here / "other.py", "other", imports="import curve")
    (here / "curve.py").write_text("")
    with pytest.raises(InputError, match=r"\(other.py, line 4\): ModuleNotFoundError: No module named 'curve'"):
        get_encoding("other.py")
    assert not list(here.rglob("__pycache__"))


def test_the_hash_covers_the_built_in_files_it_uses(here):
    (here / "mine.py").write_text(
        "from dataclasses import replace\nfrom bench.encodings.rope import RoPE\n"
        "class Mine(RoPE):\n    info = replace(RoPE.info, name='mine')\n"
    )
    texts = [(ROOT / "bench/encodings/rope.py").read_bytes(), (here / "mine.py").read_bytes()]
    assert source_hash(get_encoding("mine.py")) == hashlib.sha256(b"".join(texts)).hexdigest()
    assert source_hash(get_encoding("randomised(mine.py)")) != source_hash(get_encoding("randomised(rope)"))


# --- runs


def suite_of(*names: str) -> Suite:
    return validated(Suite, suite_dict(encodings=list(names)), "suite")


def test_a_changed_source_stops_the_run(here, monkeypatch):
    written(here / "mine.py", "mine")
    get_encoding("mine.py")
    (order,) = (RunRequest.of(run) for run in plan_runs(suite_of("nope"), ["mine"], ["copying"]))
    assert order.source.plugins == (f"{here.resolve()}/mine.py:Mine",)
    monkeypatch.chdir("/")
    with new_registry():  # another process
        order.load_encoding()
        (here / "mine.py").write_text((here / "mine.py").read_text() + "# another\n")
        order.load_encoding()  # a process goes on with what it has loaded
    message = r"the source of mine changed after this run was asked for \(hash \w{12} then, \w{12} now\)"
    with new_registry(), pytest.raises(InputError, match=message):
        order.load_encoding()
    (order,) = (RunRequest.of(run) for run in plan_runs(suite_of("rope"), ["rope"], ["copying"]))
    with pytest.raises(InputError, match="the source of rope changed"):
        replace(order, source=Source(sha256="0" * 64)).load_encoding()


def test_paths_in_a_suite_are_relative_to_its_file(here, monkeypatch):
    written(here / "suites/mine.py", "mine")
    (here / "suites/own.yaml").write_text(yaml.safe_dump(suite_dict(encodings=["rope", "mine.py", "randomised(mine.py)"])))
    suite = load_suite("suites/own.yaml")
    monkeypatch.chdir("/")
    assert suite.encoding_names == ["rope", "mine", "randomised(mine)"]
    assert suite.fingerprint == suite_of("rope").fingerprint


@pytest.mark.parametrize(
    ("call", "reason"), [("exit(0)", "SystemExit: 0"), ("__import__('os')._exit(0)", "its worker process died (exit code 0)")]
)
def test_a_hook_that_exits_fails_its_run_once(here, call, reason):
    quits = f"    def embed(self, x, at):\n        return x if not x.requires_grad else {call}\n"  # lprime run tries it without
    (here / "mine.py").write_text(written(here / "mine.py", "mine").decode() + quits)
    (here / "tiny.yaml").write_text(yaml.safe_dump(suite_dict()))
    code, printed, _ = run_command("run", "tiny.yaml", "--task", "copying", "--encoding", "mine.py", "--workers", 1)
    assert code == 1 and reason in printed
    assert len(list(here.rglob("failure.json"))) == 1


# --- lprime new


def test_new_writes_a_valid_encoding(here):
    code, printed, err = run_command("new", "far_sight", "--author", "Ada")
    assert (code, err) == (0, "") and "lprime check far_sight.py" in printed and "write yours before them" in printed
    cls = get_encoding("far_sight.py")
    assert (cls.__name__, cls.info.name, encodings.settings(cls)) == ("FarSightEncoding", "far_sight", {"rate": 1.0})
    assert (cls.info.title, cls.info.authors) == ("Far sight", "Ada")
    text = (here / "far_sight.py").read_text()
    assert "my_encoding" not in text and "MyEncoding" not in text
    places = [text.index(f"def {hook}(") for hook in encodings.HOOKS]
    assert places == sorted(places), "every hook is explained, in call order"
    for name in ("encoding", "at", "none"):  # which the template uses
        assert run_command("new", name)[0] == 0 and get_encoding(f"{name}.py").info.name == name
    assert "lprime check 'sharper.py(rope)'" in printed_by("new", "sharper", "--wrapper", "--title", "Sharper")
    assert get_encoding("sharper.py(far_sight.py(rate=0.5))").info.name == "sharper(far_sight(rate=0.5))"
    assert "link is not an https link" in refused("new", "other", "--link", "notalink")
    assert "has a title only" in refused("new", "other", "--task", "--author", "Ada") and not (here / "other.py").exists()


# --- installed packages


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The example package installed by pip, offline, and packages that are each broken in one way."""
    folder = tmp_path_factory.mktemp("installed")
    shutil.copytree(ROOT / "tests/plugins/lprime_recency", folder / "source")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", folder / "site", folder / "source"], check=True, capture_output=True, timeout=120)
    for package, point in {"broken": "broken = broken_module:Broken", "liar": "liar = liar_module:Liar"}.items():
        info = folder / f"site/{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[lprime.encodings]\n{point}\n")
    (folder / "site/broken_module.py").write_text("import no_such_thing")
    written(folder / "site/liar_module.py", "honest", cls="Liar")
    return folder / "site"


@pytest.fixture
def site(installed, monkeypatch):
    """Make the installed packages visible in this process."""
    monkeypatch.syspath_prepend(str(installed))
    registry.entry_points.cache_clear()
    yield installed
    registry.entry_points.cache_clear()
    for name in [n for n in sys.modules if n.startswith(("lprime_recency", "liar_"))]:
        del sys.modules[name]


def test_installed_plugins_are_listed_without_running_them_and_broken_ones_break_nothing(site):
    listed = run_command("list", "encodings")[1]
    assert "lprime-recency 0.1.0" in listed and "broken" in listed and "liar" in listed
    assert not {"lprime_recency", "liar_module"} & set(sys.modules)
    for name, reason in {
        "broken": "plugin 'broken' of broken 1.0 cannot be imported (broken_module.py, line 1): ModuleNotFoundError: No module",
        "liar": "plugin 'liar' of liar 1.0 names itself 'honest'",
        "recenzy": "unknown encoding 'recenzy'; did you mean 'recency'?",
    }.items():
        with pytest.raises(InputError, match=re.escape(reason)):
            get_encoding(name)


def test_an_installed_plugin_is_found_by_its_name(site, here):
    written(here / "mine.py", "mine")
    names = [path.name for path in plugin_paths("mine.py(recency)") if path.is_relative_to(site)]
    assert names == ["__init__.py", "curve.py", "encoding.py"] and "lprime_recency" not in sys.modules
    cls = get_encoding("randomised(recency(reach=2))")
    assert cls.info.name == "randomised(recency(reach=2.0))"
    assert registry.references(cls) == (), "a worker finds it by its name"
    written(here / "mine.py", "recency")
    with pytest.raises(InputError, match=r"two plugins are named 'recency': lprime-recency 0\.1\.0 and mine\.py"):
        get_encoding("mine.py")


def test_plugins_run_and_their_results_are_stored_under_their_names(installed, here):
    content = written(here / "plugin/mine.py", "mine")
    (here / "tiny.yaml").write_text(yaml.safe_dump(suite_dict()))
    chosen = [x for name in ("plugin/mine.py(strength=2)", "randomised(recency(reach=2))") for x in ("--encoding", name)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(installed), str(ROOT)])}
    arguments = ("run", "tiny.yaml", "--out", "runs", "--task", "copying", "--workers", 1, *chosen)
    process = start_lprime(*arguments, env=environment)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    records = [json.loads(path.read_text())["encoding"] for path in here.rglob("result.json")]
    found = {record["name"]: record for record in records}
    assert found.keys() == {"mine(strength=2.0)", "randomised(recency(reach=2.0))"}
    mine = found["mine(strength=2.0)"]
    assert mine["source_sha256"] == hashlib.sha256(content).hexdigest()
    assert mine["settings"] == {"strength": 2.0}
    files = b"".join((installed / "lprime_recency" / name).read_bytes() for name in ("__init__.py", "curve.py", "encoding.py"))
    outer, inner = (ROOT / "bench/encodings/randomised.py").read_bytes(), hashlib.sha256(files).hexdigest()
    assert found["randomised(recency(reach=2.0))"]["source_sha256"] == hashlib.sha256(outer + inner.encode()).hexdigest()
