"""Records of probes, local and published, as a frame."""

import numpy as np
import pytest

from bench.probe.record import ProbeRecord, Value, write_record
from bench.result import run_path
from leaderboard import published_folder
from leaderboard.results.probes import of_runs, probe_frame, publish_probes, read_local, read_published
from tasks import InputError


def record(probe: str, encoding: str, values: list[Value], **changes) -> ProbeRecord:
    return ProbeRecord(
        probe=probe, version=1, suite="tiny", suite_version=1, fingerprint="f", task="copying", variant="v", train_length=4,
        encoding=encoding, seed=0, source_sha256="s", values=values, seconds=0.1,
    ).model_copy(update=changes)  # fmt: skip


def test_only_probes_of_known_runs_in_their_newest_version_are_kept():
    mine = record("context", "rope", [], version=2)
    changes = {"fingerprint": "g", "encoding": "mine", "seed": 7, "source_sha256": "t", "version": 1}
    others = [mine.model_copy(update={key: value}) for key, value in changes.items()]
    assert of_runs([*others, mine], {("f", "copying", "rope", 0, "s")}) == [mine]


def test_records_are_published_once_and_replaced(tmp_path):
    first, second = record("context", "rope", [Value("nll", 1.0, 8)]), record("context", "my(pe)", [])
    for one in (first, second):
        write_record(tmp_path / "runs" / run_path("tiny", "copying", one.encoding, 0), one)
    local = read_local(tmp_path / "runs/tiny")
    assert sorted(local, key=lambda one: one.encoding) == [second, first]
    newer = first.model_copy(update={"values": [Value("nll", 2.0, 8)]})
    swept = newer.model_copy(update={"learning_rate": 0.002})
    assert [publish_probes("tiny", found, tmp_path) for found in (local, [newer, swept])] == [2, 2]
    assert read_published(tmp_path) == {"tiny": [second, newer, swept]}
    (tmp_path / "probes/tiny/rope.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match=r"rope.jsonl, line 1, is not a whole probe"):
        read_published(tmp_path)


def test_the_frame_has_one_row_per_number_and_counts_layers_as_figures_do():
    found = [
        record("position", "t5", [Value("error", 0.5, 4, 2), Value("chance", 3.0, 4), Value("slope", None)]),
        record("distance", "t5", [Value("mean_distance", 0.25, 8, 1, 0)]),
    ]
    frame = probe_frame(found)
    assert frame.value.tolist()[:2] == [0.5, 3.0] and np.isnan(frame.value[2]) and len(frame) == 4
    assert frame.layer.fillna(-1).tolist() == [2, -1, -1, 2], "as in the figures: 0 is the input of hidden states"
    assert frame.iloc[3][["probe", "encoding", "length", "head"]].tolist() == ["distance", "t5", 8, 0]


def test_published_probes_are_read():
    assert sum(map(len, read_published(published_folder()).values())) > 100
