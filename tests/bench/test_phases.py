"""``lprime run --profile`` and its clock."""

import time

import pytest
from support import lprime, suite_dict

from bench.runs.profile_run import profile_rows
from bench.runs.run import Run
from bench.runs.run_one import run_one
from bench.suites.suite import Suite, validated
from bench.training import profiler
from bench.training.profiler import PHASES, phase, profile_phases


def test_phases_add_up_to_the_total():
    with profile_phases() as clock:
        with phase("data"):
            time.sleep(0.02)
        time.sleep(0.02)
        with phase("data"), pytest.raises(ZeroDivisionError):
            1 / 0  # noqa: B018
    table = clock.table()
    assert tuple(table) == PHASES
    assert sum(table.values()) == pytest.approx(clock.total)
    assert table["data"] >= 0.02 and table["rest"] >= 0.02
    assert table["forward"] == 0


def test_phases_without_a_clock_do_nothing():
    with phase("data"):
        pass
    assert profiler.active_clock is None


def test_the_clock_waits_for_the_device_before_every_reading():
    waits = []
    with profile_phases(lambda: waits.append(len(waits))), phase("forward"):
        assert waits == [0]
    assert waits == [0, 1]


def test_a_run_has_every_phase(tmp_path):
    suite = validated(Suite, suite_dict(), "suite")
    with profile_phases() as clock:
        run_one(Run(suite, suite.tasks[0].task, "nope", 0), tmp_path, "cpu")
    table = clock.table()
    assert all(table[name] > 0 for name in PHASES)
    assert sum(table.values()) == pytest.approx(clock.total)


def test_the_command_prints_a_table_and_keeps_no_result(tiny, tmp_path):
    done = lprime("run", str(tiny()), "--profile", "--out", str(tmp_path / "runs"))
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in (*PHASES, "together", "no result is kept"))
    assert not (tmp_path / "runs").exists()


def test_profile_of_a_run_that_diverges_in_its_first_step():
    assert profile_rows({"data": 1.0, "rest": 3.0}, 0)[-1] == ("together", "4.00", "100.0%", "4000.000")
