"""``lprime.results``, ``evaluate``, ``train``, ``load_task`` and ``plot`` against the results and runs behind them."""

import datasets
import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from commands import printed
from support import suite_dict
from synthetic_results import CURVE, full, store, suite

import lprime
from bench.runs.run import Run
from bench.runs.run_one import run_one
from bench.suites.suite import load_suite
from bench.training.evaluate import evaluate
from leaderboard.results.store import publish as publish_runs
from tasks import InputError

SOURCE = """
import lprime


class Plain(lprime.Encoding):
    info = lprime.Info(
        name="plain", family="test", title="A test", authors="Nobody", year=2026, link="https://example.org", formula="q·k",
        past="the same", provenance="a test", shift_invariant=True
    )

    def bias(self, q, k, at: lprime.At):
        return None
"""
"""An encoding that uses public names alone."""


@pytest.fixture
def here(tmp_path, monkeypatch, fresh_registry):
    """A folder with a suite of one-second runs."""
    (tmp_path / "seconds.yaml").write_text(yaml.safe_dump(suite_dict(name="seconds")))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_results_are_those_published_and_local_of_the_newest_version(here):
    old, new = suite(), suite(version=2)
    store(here / "theirs", full(old, {"nope": CURVE, "rope": (1, 1, 0.75, 0)}))
    publish_runs("tiny", here / "theirs", here / "board")
    frame = lprime.results("tiny", published=here / "board")
    assert set(frame["origin"]) == {"published"} and len(frame) == 2 * 2 * 3 * 4 and set(frame["suite_version"]) == {1}
    rope = frame.query("encoding == 'rope' and task == 'sorting' and seed == 1")
    assert rope[["length", "relative_length", "exact"]].to_numpy().tolist() == [
        [3, 0.5, 1], [6, 1, 1], [9, 1.5, 0.75], [12, 2, 0],
    ]  # fmt: skip
    store(here / "runs", full(new, {"mine": CURVE}))
    frame = lprime.results("tiny", published=here / "board")
    assert set(frame["origin"]) == {"local"} and set(frame["fingerprint"]) == {new.fingerprint}, "versions do not compare"
    assert lprime.results(published=here / "board", out=None).shape[0] == 48
    for fault, arguments in {
        "unknown suite 'smal'; did you mean 'small'": ("smal",),
        "no results of suite quick": ("quick", here / "board"),
        "no results of suite seconds under .*board, runs": ("seconds.yaml", here / "board"),
    }.items():
        with pytest.raises(InputError, match=fault):
            lprime.results(arguments[0], published=(*arguments, False)[1])


def test_evaluate_gives_the_numbers_of_a_run_and_stores_it(here, monkeypatch, capsys):
    torch.set_num_threads(2)
    frame = lprime.evaluate("rope", "seconds.yaml", ["parity"], seed=[3])
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    expected = run_one(Run(load_suite("seconds.yaml"), "parity", "rope", 3), here / "elsewhere", "cpu")
    assert frame["exact"].tolist() == [score.exact for score in expected.scores]
    assert frame["nll"].tolist() == [score.nll for score in expected.scores]
    assert frame["weights"][0].endswith("rope/seed-3/weights.safetensors"), "as lprime run keeps trainings that others share"
    assert capsys.readouterr().out.startswith("parity rope seed 3: in distribution ")
    monkeypatch.setattr("lprime.api.runs.run_one", lambda *_: pytest.fail("finished runs are read"))
    again = lprime.evaluate("rope", "seconds.yaml", "parity", seed=3)
    pd.testing.assert_frame_equal(again, frame)
    pd.testing.assert_frame_equal(again, lprime.results("seconds.yaml", published=False))
    assert capsys.readouterr().out == ""
    with pytest.raises(InputError, match="a seed must be a whole number from 0 to 2147483647, got '0'"):
        lprime.evaluate("rope", "seconds.yaml", "parity", seed="0")


def test_train_returns_the_model_that_evaluate_tests(here):
    model = lprime.train("t5", "seconds.yaml", "copying")
    of = load_suite("seconds.yaml")
    with torch.random.fork_rng():
        scores = evaluate(model, of.make_task("copying"), of.test_sets("copying"), of.test_seed)
    frame = lprime.evaluate("t5", "seconds.yaml", "copying", quiet=True)
    assert frame["nll"].tolist() == pytest.approx([score.nll for score in scores], abs=1e-12)
    assert (here / "runs" / frame["weights"][0]).is_file()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    again = lprime.train("t5", "seconds.yaml", "copying").state_dict()
    assert all(torch.equal(again[name], state[name]) for name in state) and len(again) == len(state) > 5
    with pytest.raises(InputError, match="did you mean 'rope'"):
        lprime.train("rop", "seconds.yaml")


def test_changed_source_is_refused(here):
    (path := here / "plain.py").write_text(SOURCE)
    lprime.evaluate(path, "seconds.yaml", "parity", quiet=True)
    path.write_text(path.read_text() + "\n# changed\n")
    with pytest.raises(InputError, match="parity/plain/seed-0 holds a run of other source; delete it, or choose"):
        lprime.evaluate(path, "seconds.yaml", "parity", quiet=True)


def test_load_task_has_the_examples_that_lprime_data_writes(here):
    loaded = lprime.load_task("addition", "quick", train_examples=70, seed=2)
    printed("data", "addition", "--suite", "quick", "--to", here / "d", "--train-examples", 70, "--seed", 2)
    written_ = datasets.load_dataset(str(here / "d"), cache_dir=here / "cache")
    assert isinstance(loaded, datasets.DatasetDict) and set(loaded) == set(written_)
    assert all(loaded[split].to_dict() == written_[split].to_dict() for split in written_)
    assert printed("data", "text", "--to", here / "e", "--train-examples", 1).startswith("text of suite text: 1 training")


def test_plot_draws_the_means(here):
    store(here / "runs", full(suite(), {"nope": CURVE, "rope": (1, 1, 0.75, 0.25)}))
    frame = lprime.results("tiny", published=False)
    frame.loc[frame["seed"] == 2, "exact"] /= 2
    sorting = frame[frame["task"] == "sorting"].sort_values("encoding", ascending=False, kind="stable")
    figure = lprime.plot(sorting)
    (ax,) = figure.axes
    lines = {line.get_label(): line for line in ax.get_lines()}
    for name in ("rope", "nope"):
        rows = frame.query("encoding == @name and task == 'sorting'")
        assert np.allclose(lines[name].get_ydata(), [rows[rows["length"] == n]["exact"].mean() for n in (3, 6, 9, 12)])
        assert np.allclose(lines[name].get_xdata(), [0.5, 1, 1.5, 2])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["rope", "nope"]
    assert len(lprime.plot(frame, "token").axes) == 2
    both = pd.concat([sorting.assign(origin="published", exact=1.0), sorting[sorting["encoding"] == "rope"]])
    (ax,) = lprime.plot(both).axes
    lines = {line.get_label(): line for line in ax.get_lines()}
    assert [name for name in lines if "rope" in name or "nope" in name] == ["rope", "nope", "rope (local)"]
    assert set(lines["rope"].get_ydata()) == {1.0}, "not averaged with local runs"
    swept = pd.concat([frame.assign(learning_rate=rate, chosen=rate == 0.5, exact=rate) for rate in (0.25, 0.5, 0.75)])
    (ax, _) = lprime.plot(swept).axes
    assert {y for line in ax.get_lines()[:2] for y in line.get_ydata()} == {0.5}, "the chosen rate alone"
    stretched = frame[frame["seed"] == 1].assign(relative_length=lambda rows: rows["relative_length"] * 0.9, exact=0.0)
    (ax, _) = lprime.plot(pd.concat([frame[frame["seed"] == 0].assign(exact=1.0), stretched])).axes
    inside = [x for x in (0.45, 0.5, 0.9, 1, 1.35, 1.5, 1.8, 2) if 0.5 <= x <= 1.8]
    line = ax.get_lines()[0]
    assert np.allclose(line.get_xdata(), inside) and np.allclose(line.get_ydata(), 0.5), "seeds with another L: no zigzag"
    for fault, arguments in {
        "unknown metric 'exat'; did you mean 'exact'": {"metric": "exat"},
        "no rows": {"results": frame[:0]},
        "several learning rates, and none or many": {"results": swept.assign(chosen=swept["encoding"] == "nope")},
        "2 suites or versions, which do not compare": {"results": pd.concat([frame, frame.assign(fingerprint="x")])},
    }.items():
        with pytest.raises(InputError, match=fault):
            lprime.plot(**{"results": frame} | arguments)
