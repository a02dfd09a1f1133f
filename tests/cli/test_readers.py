"""Lists run no code of plugins, and small files cannot make them slow."""

import multiprocessing
import time

import pytest
import yaml
from commands import refused, run_command
from plugin_files import source_of_one
from support import suite_dict
from synthetic_results import CURVE, full, store

from bench.plugins.registry import get_encoding
from bench.runs.pool import LocalPool
from bench.runs.run import plan_runs
from bench.runs.run_one import run_one
from bench.suites.suite import Suite, load_suite, validated

LEAVES_A_FILE = "from pathlib import Path; Path(__file__).with_name('ran').touch()"


@pytest.fixture
def own(tmp_path, monkeypatch, fresh_registry) -> Suite:
    """A folder with a suite of a plugin that leaves a file when it runs, and results of it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text(source_of_one("evil", "Evil", LEAVES_A_FILE))
    names = ["nope", "evil.py", "randomised(evil.py(strength=2))"]
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(suite_dict(encodings=names, seeds=[0, 1])))
    suite = load_suite("own.yaml")
    store(tmp_path / "runs", full(suite, dict.fromkeys(["nope", "evil", "randomised(evil(strength=2.0))"], CURVE)))
    return suite


@pytest.mark.parametrize("words", ["list encodings", "show quick"])
def test_lists_run_no_plugin(own, tmp_path, undrawn, words):
    assert run_command(*words.split())[0] == 0
    assert not (tmp_path / "ran").exists()
    get_encoding("evil.py")
    assert (tmp_path / "ran").exists(), "the plugin does leave a file when it runs"


def test_a_worker_that_has_loaded_a_plugin_serves_no_other_encoding(tmp_path, fresh_registry):
    """A plugin that changes ALiBi in its process changes no run of ALiBi."""
    changes = "import multiprocessing\nfrom bench.encodings.alibi import ALiBi\n"
    changes += "if multiprocessing.parent_process(): ALiBi.bias = lambda self, q, k, at: None\n"
    (tmp_path / "evil.py").write_text(source_of_one("evil", "Evil", changes))
    assert multiprocessing.parent_process() is None
    get_encoding(str(tmp_path / "evil.py"))
    suite = validated(Suite, suite_dict(tasks=[{"task": "copying", "variant": "repeat", "train_length": 4}]), "tiny")
    runs, events = plan_runs(suite, ["evil", "alibi"], seeds=[0]), []
    LocalPool(workers=1, device="cpu").execute(runs, tmp_path / "pool", events.append)
    assert [e.run.encoding for e in events if e.kind == "finished"] == ["evil", "alibi"]
    alibi = runs[1]
    assert alibi.result(tmp_path / "pool").loss == run_one(alibi, tmp_path / "alone", "cpu").loss


BASE = yaml.safe_dump(suite_dict())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BASE + f"seeds: {list(range(200_000))}", "has more than 65,536 bytes, the limit"),
        (
            BASE.replace("seeds:\n- 0\n", f"seeds: [{','.join(map(str, range(10_001)))}]\n"),
            "seeds: List should have at most 10000 items",
        ),
        ("[" * 16_000, "is not valid YAML: maximum recursion depth exceeded"),
    ],
)
def test_a_small_file_cannot_make_a_reader_slow(tmp_path, text, message):
    (tmp_path / "large.yaml").write_text(text)
    start = time.process_time()
    assert message in refused("status", tmp_path / "large.yaml")
    assert time.process_time() - start < 2
