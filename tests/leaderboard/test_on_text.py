"""Runs on real text: bits per character, the worth of far text, and the page that compares them with synthetic tasks."""

import re
from math import log

import pytest
from scipy.stats import kendalltau
from synthetic_results import board, frame, result, spread, suite

from bench.suites.suite import load_suite
from leaderboard.render.columns import number
from leaderboard.render.publish import render_published
from leaderboard.render.published import Published
from leaderboard.results.file_names import page_name
from leaderboard.results.store import write_if_changed
from leaderboard.stats.rows import Board
from leaderboard.stats.transfer import across, compare, measured

TEXT = load_suite("text")
RISES = {"nope": 2.0, "rope": 3.0, "alibi": 0.0, "t5": 1.0, "fire": 0.5, "kerple_log": 0.25}


def text_run(encoding: str, seed: int, rise: float, suite=TEXT):
    """Two bits at L = 64 and below, ``rise`` more at the longest length; a bit more where far text is from elsewhere."""
    bits = [2, 2, 2 + rise / 3, 2 + rise / 2, 2 + rise]
    made = result(suite, "text", encoding, seed, [0] * 5, score_is="bits", symbols=64)
    scores = [score.model_copy(update={"nll": b * log(2)}) for score, b in zip(made.scores, bits, strict=True)]
    other = [score.model_copy(update={"nll": (b + 1) * log(2)}) for score, b in zip(scores[2:], bits[2:], strict=True)]
    needle = [score.model_copy(update={"exact": 0.5}) for score in scores[1:]]
    return made.model_copy(update={"scores": scores, "further": {"other": other, "needle": needle}})


def text_runs():
    return [text_run(name, seed, rise + 0.1 * seed) for name, rise in RISES.items() for seed in range(3)]


def test_measures_are_the_bits_that_the_runs_have():
    found = measured(Board(frame(text_runs())))
    assert list(found.index) == ["alibi", "kerple_log", "fire", "t5", "nope", "rope"]
    for name, rise in RISES.items():
        row = found.loc[name]
        assert [*row[["near", "far", "rise", "worth", "needle"]]] == pytest.approx([2, 2.1 + rise, 0.1 + rise, 1, 0.5])
        assert row["rise_low"] < row["rise"] < row["rise_high"], "also below 0 and above 1"
    assert found.loc["alibi", "rise_low"] < 0 < found.loc["alibi", "rank_low"]


def test_an_encoding_without_a_seed_is_left_out():
    runs = [run for run in text_runs() if (run.encoding.name, run.seed) != ("rope", 1)]
    assert {*measured(Board(frame(runs))).index} == {*RISES} - {"rope"}


def test_a_diverged_run_guesses_and_stays_on_the_board():
    broken = [run.model_copy(update={"status": "diverged", "scores": [s.model_copy(update={"nll": None}) for s in run.scores]})
              if (run.encoding.name, run.seed) == ("alibi", 1) else run for run in text_runs()]  # fmt: skip
    made = Board(frame(broken))
    row = made.rows.set_index("encoding").loc["alibi"]
    assert set(made.rows["fails_within"]) == {""} and made.rows["limit.text"].isna().all(), "no answers to get right"
    assert row["blocks"] == 3 and row["score"] < 0.16 < made.rows["score"].max()
    assert measured(made).loc["alibi", "far"] == pytest.approx((2 + 2.2 + 6) / 3), "log2 of 64 symbols"


def synthetic():
    """The better on synthetic tasks, the smaller the rise on text; but for kerple_log, which fails the tasks."""
    scores = {name: 0.9 - rise / 4 for name, rise in RISES.items()} | {"kerple_log": 0.05}
    return spread(suite(name="small", version=9), {name: (1, 1, score, score) for name, score in scores.items()})


def test_the_comparison_finds_the_order_and_its_exception():
    found = compare(board(synthetic()), measured(Board(frame(text_runs()))))
    assert found is not None and found["apart"].index[0] == "kerple_log"
    taus = found["taus"]["tau"]
    assert taus["overall", "rise"] == pytest.approx((11 - 4) / 15), "kerple_log is in the wrong order with four of five"
    few = board([run for run in synthetic() if run.encoding.name in ("nope", "rope")])
    assert compare(few, measured(Board(frame(text_runs())))) is None


def publish(folder, **suites):
    for name, runs in suites.items():
        for encoding in {run.encoding.name for run in runs}:
            lines = [run.model_dump_json() + "\n" for run in runs if run.encoding.name == encoding]
            write_if_changed(folder / f"results/{name}/{page_name(encoding)}.jsonl", "".join(lines).encode())
    render_published(folder)


@pytest.mark.usefixtures("undrawn")
def test_the_page_of_sizes_compares_suites_that_differ_in_size_alone(tmp_path):
    upside_down = {name: (1, 1, (1 + rise) / 5, (1 + rise) / 5) for name, rise in RISES.items()}
    larger, one = spread(suite(name="medium", version=1), upside_down), board(synthetic())
    publish(tmp_path, small=synthetic(), medium=larger)
    found = across(one, board(larger))
    expected = kendalltau(one.rows.set_index("encoding")["score"].loc[[*RISES]], [*RISES.values()]).statistic
    assert found and found["overall"]["tau"] == pytest.approx(expected)
    page = (tmp_path / "sizes.md").read_text()
    assert f"({number(found['overall']['low'])} to" in page and "| `nope` | .20 (4) | .40 (2) |" in page
    publish(other := tmp_path / "other", small=synthetic())
    assert not (other / "sizes.md").exists(), "a suite alone has no page of sizes"


def test_the_page_of_text(tmp_path):
    tuned = [text_run(f"finetuned(rope{given})", 0, rise) for given, rise in {"": 0.4, ",percent=5.0": 0.3}.items()]
    longer = [run.model_copy(update={"seed": seed, "longest_seen": 512}) for run in tuned for seed in range(3)]
    publish(tmp_path, small=synthetic(), text=text_runs() + longer)
    page, home = ((tmp_path / name).read_text() for name in ("text.md", "README.md"))
    assert list(Published(tmp_path).boards) == ["small"], "text has tables of its own"
    assert "| worth of far text | needle |\n|--:|" in page, "a table in one piece"
    assert "| `alibi` | 2.00 | 2.10 | .10 |" in page and "version 9, with text" in page
    assert "| `finetuned(rope,percent=5.0)` | 2.00 | 2.30 | .30 |" in page.split("### After a short training")[1]
    assert "On real text, `alibi` does best" in home and "text.md" in home and (tmp_path / "images/text/transfer.svg").is_file()


@pytest.mark.usefixtures("undrawn")
def test_lengths_and_sizes_stand_beside_the_papers(tmp_path):
    wider = load_suite("text-standard")
    stated = [
        text_run(name, 1, rise / 2, suite).model_copy(update={"learning_rate": suite.recipe.learning_rate})
        for suite in (TEXT, wider) for name, rise in RISES.items()
    ]  # fmt: skip
    other = [run.model_copy(update={"learning_rate": 0.5}) for run in text_runs() if run.seed]
    publish(tmp_path, small=synthetic(), text=stated[:6] + other, **{"text-standard": stated[6:]})
    page = (tmp_path / "text.md").read_text()
    assert "| bits at L | half of L 64 in view | L 64, width 64 | L 64, width 256 | Haviv, 247 M |" in page
    assert "| `alibi` | 2.00 | 2.00 | 2.00 | 19.71 | 12.51 | 19.73 |" in page
    assert "| `rope` | .50 | .09 | 1.50 | 1.50 | .96 |" in page, "of seed 1 at the stated rate alone"
    assert "## Suite text-standard" not in page, "no table of one seed"
    assert re.search(r"\| text-standard \| 6 \|( [−.\d]+ \([−.\d]+ to [−.\d]+\) \|)+\n", page), "a line for a size"
