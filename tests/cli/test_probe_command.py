"""``lprime probe``: trains missing weights, measures once, and its numbers are exported."""

import csv
import json

import pytest
from commands import printed, refused, run_command
from plugin_files import written

from bench.plugins.registry import get_encoding
from bench.probe.measure import PROBES
from bench.runs.run import plan_runs
from bench.runs.run_one import run_one
from bench.suites.suite import load_suite

NAMES = sorted(PROBES)


@pytest.fixture
def runs(tiny, here, fresh_registry) -> list:
    """Finished runs of a plugin and of nope, without weights."""
    written(here / "mine.py", "mine")
    tiny(recipe={"steps": 3, "warmup_steps": 1})
    found = plan_runs(load_suite("tiny.yaml"), [get_encoding("mine.py").info.name, "nope"], ["copying"])
    for run in found:
        run_one(run, here / "runs", "cpu")
    return found


def measured(*names: str) -> list[dict]:
    arguments = "tiny.yaml", "--task", "copying", "--encoding", "mine.py", "--encoding", "nope", "--workers", 1, "--json"
    code, out, _ = run_command("probe", *names, *arguments)
    assert code == 0
    return json.loads(out)


def test_probes_are_measured_once_and_exported(runs, here):
    records = measured()
    assert {(r["probe"], r["encoding"]) for r in records} == {(name, run.encoding) for name in NAMES for run in runs}
    assert [(r["probe"], r["encoding"]) for r in records if not r["values"]] == [("similarity", "nope")]
    folder = runs[0].folder(here / "runs")
    assert {r["device"] for r in records} == {json.loads((folder / "result.json").read_text())["device"]}
    files = sorted(folder.glob("probe-*.json"))
    assert [path.name for path in files] == [f"probe-{name}.json" for name in NAMES]
    (folder / "weights.safetensors").rename(folder / "kept")  # nothing is measured again, so nothing needs the weights
    before = [path.stat().st_mtime_ns for path in files]
    assert measured() == records and [path.stat().st_mtime_ns for path in files] == before

    table = printed("export", "--probes", "--to", "probes.csv")
    rows = list(csv.DictReader((here / "probes.csv").open()))
    assert table.startswith(f"{len(rows)} rows of {len(records)} probes")
    assert len(rows) == sum(len(r["values"]) for r in records)
    assert "unknown suite 'tin'; did you mean 'tiny'" in refused("export", "--probes", "--to", "p.csv", "--suite", "tin")


def test_a_damaged_record_is_refused_and_damaged_weights_are_trained_again(runs, here):
    before, folder = measured("growth"), runs[0].folder(here / "runs")
    (folder / "probe-growth.json").write_text("{}")
    said = run_command("probe", "growth", "tiny.yaml", "--encoding", "mine.py", "--task", "copying")
    assert "is not a whole probe" in said[2]  # on stdout is a caution: the plugin has no hooks
    (folder / "probe-growth.json").unlink()
    weights = (folder / "weights.safetensors").read_bytes()
    (folder / "weights.safetensors").write_bytes(weights[:-1] + bytes([weights[-1] ^ 1]))
    assert [record["values"] for record in measured("growth")] == [record["values"] for record in before]


def test_bad_input(tiny, here):
    tiny()
    assert "did you mean 'position'" in refused("probe", "positon", "tiny.yaml")
    assert "the suite comes last, got 'position'" in refused("probe", "tiny.yaml", "position")
    assert "no probes under" in refused("export", "--probes", "--to", "probes.csv")
