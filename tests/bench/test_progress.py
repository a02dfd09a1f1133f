"""Progress of running runs: their heartbeat files, and the lines in the log of a grid."""

import json

import pytest
from support import suite_dict

from bench.runs.progress import Event, Progress
from bench.runs.run import Run
from bench.runs.run_lock import HEARTBEAT, heartbeat, read_heartbeat
from bench.runs.run_one import run_one
from bench.suites.suite import Suite, validated
from bench.training.train import Stopped


class Clock:
    """A clock that only moves when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    for module in ("run_lock", "progress"):
        monkeypatch.setattr(f"bench.runs.{module}.time.monotonic", clock.monotonic)
    return clock


def suite(steps: int = 40) -> Suite:
    return validated(Suite, suite_dict(recipe={"steps": steps}), "suite")


def test_a_run_writes_its_heartbeat_and_deletes_it_at_the_end(tmp_path):
    run, seen = Run(suite(100), "parity", "finetuned(rope)", 0), []
    folder, stop = run.folder(tmp_path), iter([*[False] * 20, True])

    def look() -> bool:
        seen.append(read_heartbeat(folder))
        return False

    with pytest.raises(Stopped):
        run_one(run, tmp_path, "cpu", should_stop=lambda: next(stop))
    assert {path.name for path in folder.iterdir()} == {"lock", "training.lock"}
    result = run_one(run, tmp_path, "cpu", should_stop=look)
    assert run.extra_steps > 0 and result.steps == run.steps + run.extra_steps
    assert seen[0] is None and {beat.steps for beat in seen[1:]} == {result.steps}
    assert [path.name for path in folder.iterdir()] == ["result.json"]


def test_heartbeats_are_written_every_few_seconds(tmp_path, clock):
    written = []
    with heartbeat(tmp_path, 100, lambda: False) as at_step:
        assert read_heartbeat(tmp_path) is None
        for step in range(20, 101):
            at_step(step)
            written.append(read_heartbeat(tmp_path).step)
            clock.now += 0.5
        assert read_heartbeat(tmp_path).rate == 2.0
    assert list(dict.fromkeys(written)) == [20, 30, 40, 50, 60, 70, 80, 90, 100]
    assert read_heartbeat(tmp_path) is None


def test_a_heartbeat_that_cannot_be_written_stops_no_run(tmp_path):
    (tmp_path / HEARTBEAT).mkdir()
    with heartbeat(tmp_path, 100, lambda: False) as at_step:
        at_step(1)
    assert read_heartbeat(tmp_path) is None


GOOD = {"step": 5, "steps": 10, "rate": 1.0, "at": 1e9}


@pytest.mark.parametrize("text", ["", '{"step": 5', "\x00\xff", json.dumps(GOOD | {"steps": 0}), json.dumps(GOOD | {"x": 1})])
def test_damaged_heartbeats_count_as_none(tmp_path, text):
    (tmp_path / HEARTBEAT).write_text(json.dumps(GOOD))
    assert read_heartbeat(tmp_path) is not None
    (tmp_path / HEARTBEAT).write_text(text)
    assert read_heartbeat(tmp_path) is None


def train(progress: Progress, clock: Clock, runs: list[Run], seconds: float) -> None:
    """Runs that train at the same time and report every half second."""
    for half in range(1, round(2 * seconds) + 1):
        clock.now += 0.5
        for run in runs:
            progress.on_event(Event("step", run, int(run.steps * half / (2 * seconds))))
    for run in runs:
        progress.on_event(Event("finished", run, run.steps, "in distribution 1.00"))


def test_a_log_has_a_line_for_every_run_and_every_silent_minute(clock, capsys):
    runs = [Run(suite(1000), "parity", "nope", seed) for seed in range(64)]
    train(Progress(runs), clock, runs, 300)
    lines = capsys.readouterr().out.splitlines()
    assert 64 + 4 <= len(lines) <= 64 + 5
    assert lines[0] == "0/64 runs; parity nope seed 0: step 200/1000"
    assert lines[-2] == "63/64 runs, 0:00:05 left; parity nope seed 62: in distribution 1.00"
    assert lines[-1] == "64/64 runs, 0:00:00 left; parity nope seed 63: in distribution 1.00"
