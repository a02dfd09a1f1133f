"""Records of probes as a frame."""

import numpy as np

from bench.probe.record import ProbeRecord, Value
from leaderboard.export import probe_frame


def record(probe: str, encoding: str, values: list[Value], **changes) -> ProbeRecord:
    return ProbeRecord(
        probe=probe, version=1, suite="tiny", suite_version=1, fingerprint="f", task="copying", variant="v", train_length=4,
        encoding=encoding, seed=0, source_sha256="s", values=values, seconds=0.1,
    ).model_copy(update=changes)  # fmt: skip


def test_the_frame_has_one_row_per_number_and_counts_layers_as_figures_do():
    found = [
        record("position", "t5", [Value("error", 0.5, 4, 2), Value("chance", 3.0, 4), Value("slope", None)]),
        record("distance", "t5", [Value("mean_distance", 0.25, 8, 1, 0)]),
    ]
    frame = probe_frame(found)
    assert frame.value.tolist()[:2] == [0.5, 3.0] and np.isnan(frame.value[2]) and len(frame) == 4
    assert frame.layer.fillna(-1).tolist() == [2, -1, -1, 2], "as in the figures: 0 is the input of hidden states"
    assert frame.iloc[3][["probe", "encoding", "length", "head"]].tolist() == ["distance", "t5", 8, 0]
