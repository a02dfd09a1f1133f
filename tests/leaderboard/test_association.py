"""Numbers from inside the models against the score: the correlation, its test, and what is left out."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kendalltau
from synthetic_results import full, only_grid, result, suite

from bench.probe.record import ProbeRecord, Value
from leaderboard.render.publish import PublishedBoard
from leaderboard.stats.association import LEAST, MEASURES, adjusted_ps, association, lowest_error

NAMES = ("nope", "rope", "alibi", "t5", "fire", "cope", "fox", "da")


def probes(name: str, task: str, level: float, seed: int = 0, **changes) -> list[ProbeRecord]:
    """The records of one run, in which every measure is ``level`` but the entropy's slope, which is its negative."""
    length = 4 if task == "parity" else 6
    values = {
        "position": [Value("error", 3 * level + layer, n, layer) for n in (length, 2 * length) for layer in (0, 1)]
        + [Value("chance", 3.0, n) for n in (length, 2 * length)],
        "distance": [Value("mean_distance", x, n, 0, 0) for n, x in ((length, 0.1), (2 * length, 0.1 + level))],
        "growth": [Value("first_token", level, length, 0), Value("output_std", level, length, 0)]
        + [Value("slope of entropy", -level, layer=0)]
        + [Value(f"slope of {x}", level, layer=0) for x in ("largest_weight", "output_std")],
    }
    content = {
        "version": 1, "suite": "tiny", "suite_version": 1, "fingerprint": "f", "task": task, "variant": "v",
        "train_length": length, "encoding": name, "seed": seed, "source_sha256": "s", "seconds": 0.1,
    }  # fmt: skip
    return [
        ProbeRecord.model_validate({"probe": probe, "values": found, **content, **changes}) for probe, found in values.items()
    ]


def grid():
    """Encodings of which each has a higher score than the one before."""
    of = suite()
    return only_grid(of, full(of, {name: (1, 1, 0.6 + n / 25, 0.5 + n / 25) for n, name in enumerate(NAMES)}))


def test_measures_that_follow_the_score_are_found_with_their_direction():
    records = [r for n, name in enumerate(NAMES) for task in ("parity", "sorting") for r in probes(name, task, (1 + n) / 10)]
    found = association(replace(grid(), probes=records))
    assert found is not None
    assert found.encodings == NAMES[::-1], "from the highest score down"
    assert found.found == {name: -1 if name == "entropy" else 1 for name in MEASURES}
    assert found.values[0, 0].tolist() == pytest.approx([-0.8 if name == "entropy" else 0.8 for name in MEASURES])
    assert np.all(found.ps < 0.01)


def test_encodings_without_a_measure_are_left_out_and_few_say_nothing():
    records = [r for n, name in enumerate(NAMES) for task in ("parity", "sorting") for r in probes(name, task, n / 10)]
    lacking = [r for r in records if (r.encoding, r.task, r.probe) != ("da", "sorting", "growth")]
    found = association(replace(grid(), probes=lacking))
    assert found is not None and set(found.encodings) == set(NAMES) - {"da"}
    few = [r for r in records if r.encoding in NAMES[: LEAST - 1]]
    assert association(replace(grid(), probes=few)) is None


def test_the_score_is_that_of_the_probed_runs():
    of, level = suite(), [0.2, 0.9]
    runs = [
        result(of, task, name, seed, exact=(1, 1, level[seed], level[seed]))
        for task, name, seed in itertools.product(("parity", "sorting"), NAMES, (0, 1))
    ]
    records = [r for name in NAMES for task in ("parity", "sorting") for r in probes(name, task, 0.5, seed=1)]
    found = association(replace(only_grid(of, runs), probes=records))
    assert found is not None and found.scores[:, 1].tolist() == pytest.approx([0.9] * len(NAMES), abs=0.05)
    assert np.all(found.ps == 1), "all are tied"


def test_the_position_is_read_at_the_best_layer():
    records = [
        r for seed, level in ((0, 0.1), (1, 0.3)) for r in probes("nope", "parity", level, seed) if r.probe == "position"
    ]
    assert lowest_error(records, 4) == pytest.approx(0.2)
    assert lowest_error(records, 5) is None


def test_p_is_that_of_all_permutations():
    rng = np.random.default_rng(1)
    values, scores = rng.normal(size=(6, 2, 3)), rng.normal(size=(6, 2))
    values[..., 0] += 2 * scores

    def largest(order) -> list[float]:
        return [abs(np.mean([kendalltau(values[:, t, m], scores[order, t]).statistic for t in (0, 1)])) for m in range(3)]

    every = np.array([max(largest(list(order))) for order in itertools.permutations(range(6))])
    exact = [(every >= one - 1e-9).mean() for one in largest(list(range(6)))]
    assert adjusted_ps(values, scores).tolist() == pytest.approx(exact, abs=0.02)
    assert exact[0] < 0.1 < exact[1]


def test_chance_finds_any_measure_in_one_of_twenty():
    rng = np.random.default_rng(0)
    found = [adjusted_ps(rng.normal(size=(8, 2, 4)), rng.normal(size=(8, 2)), 199).min() <= 0.05 for _ in range(200)]
    assert 0.01 < np.mean(found) < 0.1


def test_the_page_and_the_board_say_what_goes_with_the_score():
    records = [r for n, name in enumerate(NAMES) for task in ("parity", "sorting") for r in probes(name, task, (1 + n) / 10)]
    board = PublishedBoard({"tiny": [replace(grid(), probes=records)]}, {})
    pages = {path: data.decode() for path, data in board.text_files().items()}
    said = "higher scores go with hidden states that show absolute positions less exactly at L (τ 1.000), "
    assert f"- **Inside the models**: over the 8 encodings whose models were probed, {said}" in pages["README.md"]
    section = pages["INSIDE.md"].split("### What goes with the score?")[1].split("###")[0]
    assert f"Over the 8 encodings whose models were probed, {said}" in section and "attention that spreads less" in section
    lines = {line.split("**")[1]: line.split("|")[2:] for line in section.splitlines() if line.startswith("| **")}
    assert [cell.strip() for cell in lines["entropy"][:3]] == ["−1.000", "<.001", "−1.000 to −1.000"]
    assert lines.keys() == MEASURES.keys()
    own = next(line for line in pages["pages/fox.md"].splitlines() if line.startswith("Its values"))
    assert "among the 8 encodings probed" in own and "position at L 0.70 (place 2)" in own and "entropy −0.70 (place 2)" in own
    figures = board.figure_files()
    assert "images/tiny/inside/association.svg" in section and "images/tiny/inside/association.dark.svg" in figures
    drawn = figures["images/tiny/inside/association.svg"].decode()
    assert all(f">{name}</text>" in drawn for name in NAMES) and "entropy: τ −1.000" in drawn


def test_measures_that_go_with_nothing_are_not_drawn():
    level = dict(zip(NAMES, (3, 6, 1, 8, 2, 5, 7, 4), strict=True))
    records = [r for name in NAMES for task in ("parity", "sorting") for r in probes(name, task, level[name] / 10)]
    board = PublishedBoard({"tiny": [replace(grid(), probes=records)]}, {})
    inside = board.text_files()["INSIDE.md"].decode()
    assert "none of 7 measures goes with the score by more than chance" in inside and "association.svg" not in inside
    assert "images/tiny/inside/association.svg" not in board.figure_files()
