"""The clock of ``lprime run --profile``."""

import time

import pytest
from support import lprime, suite_dict

from bench import phases
from bench.phases import PHASES, clocked, phase
from bench.runs import Run
from bench.suite import Suite, validated
from bench.work import execute


def test_every_second_belongs_to_one_phase():
    with clocked() as clock:
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


def test_without_a_clock_nothing_is_counted():
    with phase("data"):
        pass
    assert phases.running is None


def test_the_device_is_waited_for_before_every_reading():
    waits = []
    with clocked(lambda: waits.append(len(waits))), phase("forward"):
        assert waits == [0]
    assert waits == [0, 1]


def test_a_run_spends_time_in_every_phase(tmp_path):
    suite = validated(Suite, suite_dict(), "suite")
    with clocked() as clock:
        execute(Run(suite, suite.tasks[0].task, "nope", 0), tmp_path, "cpu")
    table = clock.table()
    assert all(table[name] > 0 for name in PHASES)
    assert sum(table.values()) == pytest.approx(clock.total)


def test_the_command_prints_the_table_and_keeps_no_result(tiny, tmp_path):
    done = lprime("run", str(tiny()), "--profile", "--out", str(tmp_path / "runs"))
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in (*PHASES, "together", "no result is kept"))
    assert not (tmp_path / "runs").exists()


def test_a_run_that_diverges_in_its_first_step_has_a_profile():
    from bench.profiling import rows

    assert rows({"data": 1.0, "rest": 3.0}, 0)[-1] == ("together", "4.00", "100.0%", "4000.000")
