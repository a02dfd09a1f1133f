"""``lprime run --track``: what each tracker is given, with stand-ins for the packages, which are not needed otherwise."""

import sys
from types import ModuleType

import pytest
from commands import run_command
from support import ROOT
from synthetic_results import result, store, suite

from bench.runs.executor import Event
from bench.runs.pool import LocalPool
from bench.runs.run import Run
from bench.runs.tracking import TRACKERS, recorder
from tasks import InputError

FAKE = """
calls = []
class Run:
    def __enter__(self): return self
    def __exit__(self, *_): calls.append(("finish",))
    def log(self, row): calls.append(("log", row))
    def define_metric(self, name, step_metric): calls.append(("axis", name, step_metric))
def init(**settings):
    print("noise")
    calls.append(("init", settings))
    return Run()
log = Run().log
def finish(): calls.append(("finish",))
"""
LOSS = [(10, 2.0), (20, 1.5)]


@pytest.fixture
def finished(tmp_path, monkeypatch):
    """Two finished runs of a suite, and packages that record how they are called."""
    for name in ("wandb", "trackio", "tensorboard"):
        (tmp_path / f"site/{name}.py").parent.mkdir(exist_ok=True)
        (tmp_path / f"site/{name}.py").write_text(FAKE)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delenv("WANDB_MODE", raising=False)
    of = suite()
    store(tmp_path / "runs", [result(of, seed=seed, loss=LOSS) for seed in (0, 1)])
    yield [Run(of, "sorting", "nope", seed) for seed in (0, 1)], tmp_path / "runs"
    for name in ("wandb", "trackio", "tensorboard"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_curve_scores_and_settings_are_logged_offline(finished, capsys, name):
    runs, out = finished
    events = [Event("started", runs[1]), Event("step", runs[1], 5), Event("failed", runs[1]), Event("finished", runs[1])]
    heard = []
    for event in events:
        recorder(name, out)(heard.append)(event)
    assert heard == events == [*map(recorder(None, out)(lambda event: event), events)]
    calls = sys.modules[name].calls
    ((_, init),) = [call for call in calls if call[0] == "init"]
    assert init["project"] == "lprime" and init["name"] == "tiny/sorting/nope/seed-1"
    assert (init["config"]["seed"], init["config"]["encoding"], init["config"]["exact_past_L"]) == (1, "nope", 0.375)
    rows = [call[1] for call in calls if call[0] == "log"]
    assert rows[:2] == [{"training_step": step, "loss": loss} for step, loss in LOSS]
    assert [(row["length"], row["exact"]) for row in rows[2:]] == [(3, 1), (6, 1), (9, 0.5), (12, 0.25)]
    assert calls[-1] == ("finish",)
    if name == "wandb":
        assert init["mode"] == "offline" and init["dir"] == str(out)
        assert ("axis", "loss", "training_step") in calls and ("axis", "exact", "length") in calls
    else:
        assert capsys.readouterr().out == "", "its own messages would break the progress display"


def test_tensorboard_gets_scalars(finished, monkeypatch):
    runs, out = finished
    written = []

    class SummaryWriter:
        def __init__(self, folder):
            written.append(folder)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            written.append("closed")

        def add_scalar(self, name, value, step):
            written.append((name, value, step))

        def add_hparams(self, settings, outcomes, run_name):
            written.append((settings["task"], outcomes["exact_in_distribution"]))  # an error would be caught

    fake = ModuleType("torch.utils.tensorboard")
    fake.SummaryWriter = SummaryWriter
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", fake)
    recorder("tensorboard", out)(print)(Event("finished", runs[0]))
    assert written[0] == str(out / "tensorboard/tiny/sorting/nope/seed-0") and written[-1] == "closed"
    assert {("loss by step", 1.5, 20), ("exact by length", 0.25, 12), ("token by length", 1, 3), ("sorting", 1)} < set(written)


def test_the_command_records_runs_and_survives_a_broken_tracker(finished, monkeypatch, tiny):
    _, out = finished

    def execute(self, runs, out, on_event):
        for run in runs:
            store(out, [result(run.suite, run.task, run.encoding, run.seed, (1, 1, 1, 1), loss=LOSS)])
            on_event(Event("finished", run, 20, "done"))

    monkeypatch.setattr(LocalPool, "execute", execute)
    import trackio  # the stand-in

    where = ("run", tiny(seeds=[0, 1, 2]), "--task", "copying", "--encoding", "nope", "--out", out, "--track", "trackio")
    code, _, err = run_command(*where, "--seed", 1)
    assert (code, err) == (0, "") and [call[0] for call in trackio.calls if call[0] != "log"] == ["init", "finish"]
    trackio.init = lambda **_: 1 / 0
    code, printed, _ = run_command(*where, "--seed", 2)
    assert code == 0 and "copying nope seed 2: not recorded by trackio: ZeroDivisionError: division by zero" in printed
    code, _, err = run_command(*where[:-1], "trakio")
    assert (code, err) == (2, "lprime: unknown tracker 'trakio'; did you mean 'trackio'?\n")


def test_a_package_that_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name in TRACKERS:
        with pytest.raises(
            InputError, match=rf"needs the package {name}, which is not installed: pip install 'lprime\[{name}\]'"
        ):
            recorder(name, tmp_path)
        assert f"\n{name} = " in (ROOT / "pyproject.toml").read_text(), "an extra"
