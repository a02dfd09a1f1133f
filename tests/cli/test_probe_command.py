"""``lprime probe``: trains missing runs, measures once, and its numbers are published and exported."""

import csv
import json

import pytest
from commands import printed, refused, run_command

from bench.plugins.registry import get_encoding
from bench.probe.measure import VERSIONS
from bench.probe.subject import load_subject
from bench.runs.run import Run
from bench.suites.suite import load_suite
from tasks import InputError

PLUGIN = """
from bench.encodings import Encoding, Info

class Near(Encoding):
    info = Info(name="near", family="bias", title="t", authors="a", year=2026, link="https://example.org", formula="f",
                past="p", provenance="none", source="own variant")

    def bias(self, q, k, at):
        return -0.5 * at.distances.float()
"""


@pytest.fixture
def measured(tiny, tmp_path, monkeypatch, fresh_registry):
    """Folder with runs of a plugin and of nope, and their probes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "near.py").write_text(PLUGIN)
    tiny()
    records = json.loads(printed_json("--encoding", "near.py", "--encoding", "nope"))
    return tmp_path, records


def printed_json(*more) -> str:
    code, out, _err = run_command("probe", "tiny.yaml", "--task", "copying", "--workers", 1, "--json", *more)
    assert code == 0
    return out


def test_probes_of_a_plugin(measured, monkeypatch):
    folder, records = measured
    assert {r["probe"] for r in records} == {*VERSIONS} - {"needle", "excess"}, "those that the task allows"
    assert {r["encoding"] for r in records} == {"near", "nope"}
    assert all(r["values"] and not r["note"] for r in records)
    run = folder / "runs/tiny/copying/near/seed-0"
    assert {r["device"] for r in records} == {json.loads((run / "result.json").read_text())["device"]}
    files = sorted(run.glob("probe-*.json"))
    assert [path.name for path in files] == [f"probe-{name}.json" for name in sorted({*VERSIONS} - {"needle", "excess"})]
    before = {path: path.stat().st_mtime_ns for path in files}
    (run / "weights.safetensors").rename(run / "kept")  # nothing is measured again, so nothing needs the weights
    assert json.loads(printed_json("--encoding", "near.py", "--encoding", "nope")) == records
    assert {path: path.stat().st_mtime_ns for path in files} == before
    (run / "kept").rename(run / "weights.safetensors")

    table = printed("export", "--probes", "--to", "probes.csv")
    rows = list(csv.DictReader((folder / "probes.csv").open()))
    assert table.startswith(f"{len(rows)} rows of {len(records)} probes")
    assert "unknown suite 'tin'; did you mean 'tiny'" in refused("export", "--probes", "--to", "p.csv", "--suite", "tin")
    assert len(rows) == sum(len(r["values"]) for r in records)
    shown = printed("probe", "tiny.yaml", "--encoding", "nope", "--task", "copying", "--workers", 1)
    assert "position, copying" in shown and "error, l = " in shown and "similarity, copying" in shown

    assert "nothing to train" in printed("probe", "tiny.yaml", "--encoding", "nope", "--task", "copying", "--dry-run")
    printed("publish", "tiny.yaml", "--encoding", "nope", "--board", "board", "--no-measure")
    assert (folder / "board/probes/tiny/nope.jsonl").read_text().count("\n") == len({r["probe"] for r in records})

    growth = "probe", "growth", "tiny.yaml", "--encoding", "near.py", "--task", "copying"
    (run / "probe-growth.json").write_text("{}")
    assert "is not a whole probe" in refused(*growth)
    (run / "probe-growth.json").unlink()
    weights = (run / "weights.safetensors").read_bytes()
    (run / "weights.safetensors").write_bytes(weights[:-1] + bytes([weights[-1] ^ 1]))
    assert "is damaged (its content does not match its checksum)" in refused(*growth)
    (run / "weights.safetensors").write_bytes(weights)
    with monkeypatch.context() as longer, pytest.raises(InputError, match="ends at step 40 of 41; delete it to train copying"):
        longer.setattr(Run, "steps", 41)
        load_subject(Run(load_suite("tiny.yaml"), "copying", get_encoding("near.py").info.name, 0), folder / "runs")


def test_bad_input(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny()
    assert "did you mean 'position'" in refused("probe", "positon", "tiny.yaml")
    for arguments in (["position"], ["tiny.yaml", "position"]):
        assert "the suite comes last, got 'position'" in refused("probe", *arguments)
    assert "needle: defined for none of the chosen tasks of suite tiny" in refused("probe", "needle", "tiny.yaml")
    both = "needle", "similarity", "tiny.yaml"
    assert "1 run" in printed("probe", *both, "--task", "copying", "--encoding", "nope", "--dry-run")
    assert "no probes under" in refused("export", "--probes", "--to", "probes.csv")
