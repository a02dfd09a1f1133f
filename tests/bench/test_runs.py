"""Runs: the plan of a grid, states read off the files, one process at a time."""

import multiprocessing

import pytest
from support import suite_dict

from bench.runs import LockedElsewhere, Run, lock, locked, plan
from bench.suite import Suite, validated
from tasks import InputError


@pytest.fixture
def suite() -> Suite:
    return validated(Suite, suite_dict(seeds=[0, 1]), "suite")


def test_the_plan_is_the_grid_one_seed_after_the_other(suite):
    runs = plan(suite)
    assert len(runs) == 2 * 2 * 2 == len(set(runs))
    assert [r.seed for r in runs] == [0] * 4 + [1] * 4
    assert [str(r) for r in plan(suite, ["rope", "rope"], ["parity"], [7])] == ["parity rope seed 7"], "named once"


def test_the_plan_refuses_what_the_suite_has_not(suite):
    with pytest.raises(InputError, match=r"unknown task of suite tiny 'parit'; did you mean 'parity'\?"):
        plan(suite, tasks=["parit"])
    with pytest.raises(InputError, match="a seed must be 0 or more, got -1"):
        plan(suite, seeds=[-1])


def hold(folder, ready, leave):
    with lock(folder):
        ready.set()
        leave.wait(30)


def test_states_come_from_files_alone(tmp_path, suite):
    run = plan(suite)[0]
    folder = run.folder(tmp_path)
    assert run.state(tmp_path) == "missing"
    with lock(folder):
        (folder / "checkpoint.safetensors").write_bytes(b"")
    assert run.state(tmp_path) == "paused"
    run.fail(tmp_path, "it broke", "Traceback …")
    assert run.state(tmp_path) == "failed"
    assert run.failure(tmp_path).error == "it broke"
    (folder / "failure.json").write_text("{")
    with pytest.raises(InputError, match="not a failure report"):
        run.state(tmp_path)


def test_a_run_belongs_to_one_process_and_the_lock_dies_with_it(tmp_path, suite):
    folder = plan(suite)[0].folder(tmp_path)
    context = multiprocessing.get_context("spawn")
    ready, leave = context.Event(), context.Event()
    process = context.Process(target=hold, args=(folder, ready, leave))
    process.start()
    try:
        assert ready.wait(30)
        assert locked(folder)
        assert plan(suite)[0].state(tmp_path) == "running"
        with pytest.raises(LockedElsewhere), lock(folder):
            pass
    finally:
        process.kill()
        process.join()
    assert not locked(folder)
    with lock(folder):
        assert locked(folder)


def test_a_result_of_another_fingerprint_is_refused_not_overwritten(tmp_path, suite):
    from bench.work import execute

    run = plan(suite)[0]
    execute(run, tmp_path, "cpu")
    other = Run(validated(Suite, suite_dict(version=2), "suite"), run.task, run.encoding, run.seed)
    with pytest.raises(InputError, match=r"fingerprint .* keep the two apart with another --out"):
        execute(other, tmp_path, "cpu")
    assert run.state(tmp_path) == "done"
