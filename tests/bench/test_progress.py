"""Progress of running runs: their heartbeat files, and the lines in the log of a grid."""

import json
import time

import pytest
from support import suite_dict

from bench.runs import heartbeat as heartbeat_module
from bench.runs import progress as progress_module
from bench.runs.executor import Event
from bench.runs.heartbeat import HEARTBEAT, Heartbeat, HeartbeatWriter, heartbeat, read_heartbeat
from bench.runs.progress import PlainProgress
from bench.runs.run import Run
from bench.runs.run_one import run_one
from bench.suites.suite import Suite, validated
from bench.training.train import Stopped


class Clock:
    """A clock that only moves when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


def suite(steps: int = 40) -> Suite:
    return validated(Suite, suite_dict(recipe={"steps": steps}), "suite")


# --- heartbeat


def test_a_run_writes_its_heartbeat_and_deletes_it_at_the_end(tmp_path):
    run, seen = Run(suite(), "parity", "nope", 0), []
    run_one(run, tmp_path, "cpu", report=lambda step: seen.append(read_heartbeat(run.folder(tmp_path))))
    assert seen[-1].step == seen[-1].steps == 40, "evaluation starts with a heartbeat of the last step"
    assert [path.name for path in run.folder(tmp_path).iterdir()] == ["result.json"]


def test_a_stopped_run_leaves_no_heartbeat(tmp_path):
    run, steps = Run(suite(), "parity", "nope", 0), iter(range(1000))
    with pytest.raises(Stopped):
        run_one(run, tmp_path, "cpu", should_stop=lambda: next(steps) == 20)
    assert {path.name for path in run.folder(tmp_path).iterdir()} == {"checkpoint.safetensors", "lock", "training.lock"}


def test_the_steps_of_an_extra_stage_count(tmp_path):
    run = Run(suite(100), "parity", "finetuned(rope)", 0)
    assert run.extra_steps > 0
    assert run_one(run, tmp_path, "cpu").steps == run.steps + run.extra_steps


def test_heartbeats_are_written_every_few_seconds_and_at_the_last_step(tmp_path, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(heartbeat_module.time, "monotonic", clock.monotonic)
    writer, written = HeartbeatWriter(tmp_path, 100), []
    for step in range(20, 101):
        writer.report(step)
        written.append(read_heartbeat(tmp_path).step)
        clock.now += 0.5
    assert list(dict.fromkeys(written)) == [20, 30, 40, 50, 60, 70, 80, 90, 100]
    beat = read_heartbeat(tmp_path)
    assert (beat.rate, beat.share, beat.seconds_left) == (2.0, 1.0, 0.0)
    clock.now += 30  # evaluation
    writer.report(100)
    assert read_heartbeat(tmp_path).rate == 2.0, "evaluation does not count as training"


def test_a_slow_file_system_is_written_less_often(tmp_path, monkeypatch):
    clock, writes = Clock(), []
    monkeypatch.setattr(heartbeat_module.time, "monotonic", clock.monotonic)

    def slow_write(*_, **__):
        writes.append(clock.now)
        clock.now += 2

    monkeypatch.setattr(heartbeat_module, "write_atomic", slow_write)
    writer = HeartbeatWriter(tmp_path, 10**6)
    for step in range(1000):
        writer.report(step)
        clock.now += 1
    assert len(writes) == 11, "every hundred seconds"


def test_the_heartbeat_of_a_killed_process_is_deleted_when_the_run_resumes(tmp_path):
    (tmp_path / HEARTBEAT).write_text(Heartbeat(step=90, steps=100, rate=1.0, at=1.0).model_dump_json())
    with heartbeat(tmp_path, 100, lambda step: None):
        assert read_heartbeat(tmp_path) is None


def test_a_heartbeat_that_cannot_be_written_stops_no_run(tmp_path):
    (tmp_path / HEARTBEAT).mkdir()
    steps: list[int] = []
    with heartbeat(tmp_path, 100, steps.append) as report:
        report(1)
    assert steps == [1]
    assert read_heartbeat(tmp_path) is None


GOOD = {"step": 5, "steps": 10, "rate": 1.0, "at": 1e9}
DAMAGED = {
    "empty": "",
    "cut short": '{"step": 5',
    "not text": "\x00\xff",
    "another key": json.dumps(GOOD | {"extra": 1}),
    "a missing key": json.dumps({"step": 5}),
    "beyond the last step": json.dumps(GOOD | {"step": 11}),
    "negative": json.dumps(GOOD | {"step": -1}),
    "no steps": json.dumps(GOOD | {"steps": 0, "step": 0}),
    "not a number": json.dumps(GOOD | {"rate": float("nan")}),
    "beyond all time": json.dumps(GOOD | {"at": 1e300}),
    "endless": json.dumps(GOOD | {"steps": 10**400}),
    "a list": "[]",
}


@pytest.mark.parametrize("fault", DAMAGED)
def test_damaged_heartbeats_count_as_none(tmp_path, fault):
    (tmp_path / HEARTBEAT).write_text(json.dumps(GOOD))
    assert read_heartbeat(tmp_path) is not None
    (tmp_path / HEARTBEAT).write_text(DAMAGED[fault])
    assert read_heartbeat(tmp_path) is None


def test_a_heartbeat_takes_less_than_a_thousandth_of_the_time(tmp_path):
    writer, count = HeartbeatWriter(tmp_path, 10**6), 200
    start = time.process_time()
    for step in range(count):
        writer.write(step)
    assert (time.process_time() - start) / count < heartbeat_module.WRITE_EVERY_S / 1000


# --- log


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress_module.time, "monotonic", clock.monotonic)
    return clock


def train(progress: PlainProgress, clock: Clock, runs: list[Run], seconds: float) -> None:
    """Runs that train at the same time and report every half second."""
    for run in runs:
        progress.on_event(Event("started", run))
    for half in range(1, round(2 * seconds) + 1):
        clock.now += 0.5
        for run in runs:
            progress.on_event(Event("step", run, int(run.steps * half / (2 * seconds))))
    for run in runs:
        progress.on_event(Event("finished", run, run.steps, "in distribution 1.00"))


def test_a_log_of_short_runs_has_one_line_per_run(clock, capsys):
    runs = [Run(suite(), "parity", "nope", seed) for seed in range(1000)]
    progress = PlainProgress(runs)
    for first in range(0, 1000, 4):
        train(progress, clock, runs[first : first + 4], 20)
    assert len(capsys.readouterr().out.splitlines()) == 1000


def test_a_long_run_has_a_line_for_every_tenth_and_every_silent_minute(clock, capsys):
    run = Run(suite(10000), "parity", "nope", 0)
    train(PlainProgress([run]), clock, [run], 1000)  # a tenth takes 100 s
    lines = capsys.readouterr().out.splitlines()
    tenths = [line for line in lines if any(f"step {n}000/10000, {n}0%" in line for n in range(1, 11))]
    assert len(tenths) >= 9
    assert len(lines) <= 10 + 1000 / 60
    assert any(line.endswith("left] parity nope seed 0: step 5000/10000, 50%, 8:20 left") for line in lines)
    assert any("10000/10000, 100%, evaluation" in line for line in lines)
    assert lines[-1].endswith("parity nope seed 0: in distribution 1.00")


def test_many_runs_of_minutes_have_one_line_a_minute(clock, capsys):
    runs = [Run(suite(1000), "parity", "nope", seed) for seed in range(64)]
    train(PlainProgress(runs), clock, runs, 300)  # a tenth takes 30 s
    lines = capsys.readouterr().out.splitlines()
    assert 64 + 4 <= len(lines) <= 64 + 5
    assert "left] parity nope seed 0: step 200/1000, 20%, 3:59 left; parity nope seed 1: step 198/1000" in lines[0]
    assert lines[0].endswith("; 61 more running")


def test_a_run_that_another_worker_resumes_earlier_has_no_negative_time_left(clock, capsys):
    run = Run(suite(1000), "parity", "nope", 0)
    progress = PlainProgress([run])
    progress.on_event(Event("started", run))
    progress.on_event(Event("step", run, 500))
    progress.on_event(Event("started", run))
    clock.now += 61
    progress.on_event(Event("step", run, 450))
    assert capsys.readouterr().out.splitlines() == ["[0/1 runs, 0 steps/s] parity nope seed 0: step 450/1000, 45%"]
