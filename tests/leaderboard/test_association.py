"""Numbers from inside the models against the score: the correlation, its test, and what is left out."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kendalltau
from synthetic_results import full, only_grid, result, suite

from bench.probe.record import ProbeRecord, Value
from leaderboard.render.association_text import association_sentence
from leaderboard.render.publish import PublishedBoard
from leaderboard.stats.association import LEAST, MEASURES, Check, adjusted_ps, association, lowest_error

NAMES = ("nope", "rope", "alibi", "t5", "fire", "cope", "fox", "da")
TASKS = ("parity", "sorting")
FACTORS = dict(zip(MEASURES, (0.2, 0.3, 0.5, 0.7, -1.1, 1.3, 1.7), strict=True))
"""Measure → its value, as a multiple of the level of ``probes``."""


def probes(name: str, task: str, level: float, seed: int = 0) -> list[ProbeRecord]:
    """The records of one run, in which every measure is another multiple of ``level``."""
    length = 4 if task == "parity" else 6
    value = {measure: factor * level for measure, factor in FACTORS.items()}
    errors = {length: 3 * value["position at L"], 2 * length: 3 * value["position past L"]}
    values = {
        "position": [Value("error", x + layer, n, layer) for n, x in errors.items() for layer in (0, 1)]
        + [Value("chance", 3.0, n) for n in errors],
        "distance": [Value("mean_distance", x, n, 0, 0) for n, x in ((length, 0.1), (2 * length, 0.1 + value["farther"]))],
        "growth": [
            Value("first_token", value["first token"], length, 0),
            Value("output_std", level, length, 0),
            Value("slope of entropy", value["entropy"], layer=0),
            Value("slope of largest_weight", value["largest weight"], layer=0),
            Value("slope of output_std", value["output"], layer=0),
        ],
    }
    content = {
        "version": 1, "suite": "tiny", "suite_version": 1, "fingerprint": "f", "task": task, "variant": "v",
        "train_length": length, "encoding": name, "seed": seed, "source_sha256": "s", "seconds": 0.1,
    }  # fmt: skip
    return [ProbeRecord.model_validate({"probe": probe, "values": found, **content}) for probe, found in values.items()]


def grid(names=NAMES):
    """Encodings of which each has a higher score than the one before."""
    of = suite()
    return only_grid(of, full(of, {name: (1, 1, 0.6 + n / 25, 0.5 + n / 25) for n, name in enumerate(names)}))


def records(levels=range(1, 9)) -> list[ProbeRecord]:
    return [r for name, n in zip(NAMES, levels, strict=True) for task in TASKS for r in probes(name, task, n / 10)]


def test_measures_that_follow_the_score_are_found_with_their_direction():
    found = association(replace(grid(), probes=records()))
    assert found is not None
    assert found.encodings == NAMES[::-1], "from the highest score down"
    assert found.found == {name: -1 if name == "entropy" else 1 for name in MEASURES}
    assert found.values[0, 0].tolist() == pytest.approx([0.8 * factor for factor in FACTORS.values()])
    assert np.all(found.ps < 0.01)


def test_encodings_without_a_measure_are_left_out_and_few_say_nothing():
    lacking = [r for r in records() if (r.encoding, r.task, r.probe) != ("da", "sorting", "growth")]
    empty = [
        r.model_copy(update={"values": r.values[:3]}) if (r.encoding, r.probe) == ("fox", "growth") else r for r in lacking
    ]
    found = association(replace(grid(), probes=empty))
    assert found is not None and set(found.encodings) == set(NAMES) - {"da", "fox"}
    few = [r for r in records() if r.encoding in NAMES[: LEAST - 1]]
    assert association(replace(grid(), probes=few)) is None


def test_measures_and_score_are_of_the_same_runs():
    of, level = suite(), [0.2, 0.9]
    runs = [
        result(of, task, name, seed, exact=(1, 1, level[seed], level[seed]))
        for task, name, seed in itertools.product(TASKS, NAMES, (0, 1))
    ]
    both = [r for name in NAMES for task in TASKS for seed in (0, 1) for r in probes(name, task, 0.5 + seed, seed)]
    shared = [r for r in both if r.seed == 1 or r.probe != "growth"]
    found = association(replace(only_grid(of, runs), probes=shared))
    assert found is not None and found.scores[:, 1].tolist() == pytest.approx([0.9] * len(NAMES), abs=0.05)
    assert found.of_measure("farther").tolist() == pytest.approx([1.5 * FACTORS["farther"]] * len(NAMES))
    assert np.all(found.ps == 1), "all are tied"


def test_groups_of_encodings_are_left_out_one_at_a_time():
    def changed(run):
        family = "absolute" if run.encoding.name in ("nope", "da") else "bias"
        shared = "rope" if run.encoding.name == "fox" else ""
        return run.model_copy(update={"encoding": run.encoding.model_copy(update={"family": family}), "trained_as": shared})

    runs = list(map(changed, grid().all_runs))
    found = association(replace(only_grid(suite(), runs), probes=records((5, 2, 3, 4, 5, 6, 7, 4))))
    assert found is not None
    assert [one.left_out for one in found.checks] == [("da", "nope"), ("fox",)]
    without, _ = found.checks
    assert without.means[0] == pytest.approx(1) and found.means[0] < 0.6
    kept = [n for n, name in enumerate(found.encodings) if name not in ("nope", "da")]
    assert without.ps.tolist() == adjusted_ps(found.values[kept], found.scores[kept]).tolist()


def test_a_measure_that_is_significant_only_without_some_encodings_is_named():
    found = association(replace(grid(), probes=records()))
    place = list(MEASURES).index("entropy")
    unsure = replace(found, ps=np.where(np.arange(len(MEASURES)) == place, 0.5, 0.001), checks=())
    assert "1 other measure shows no significant correlation." in association_sentence(unsure)
    checks = (Check("one training", ("ntk", "yarn"), found.means, found.ps),)
    only = r"no significant correlation \(attention that spreads less .* only without ntk and yarn\)\."
    assert re.search(only, association_sentence(replace(unsure, checks=checks)))


def test_the_position_is_read_at_the_best_layer():
    found = [r for seed, level in ((0, 0.1), (1, 0.3)) for r in probes("nope", "parity", level, seed) if r.probe == "position"]
    assert lowest_error(found, 4) == pytest.approx(0.2 * FACTORS["position at L"])
    assert lowest_error(found, 5) is None


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


@pytest.mark.usefixtures("undrawn")
def test_the_page_and_the_board_say_what_goes_with_the_score():
    flat = [
        r.model_copy(update={"values": [v._replace(value=0.0) if v.quantity == "first_token" else v for v in r.values]})
        if r.task == "parity"
        else r
        for r in records()
    ]
    board = PublishedBoard({"tiny": [replace(grid(), probes=flat)]}, {})
    pages = {path: data.decode() for path, data in board.text_files().items()}
    said = "he 8 encodings probed on every task, higher scores go with hidden states that show absolute positions less exactly "
    assert f"- **Inside the models**: exploratory, over t{said}(at L: τ 1.000; past L: τ 1.000), " in pages["README.md"]
    section = pages["INSIDE.md"].split("### What goes with the score?")[1].split("###")[0]
    assert f"Exploratory, over t{said}" in section and "attention that spreads less as sequences grow (τ −1.000)" in section
    lines = {line.split("**")[1]: line.split("|")[2:] for line in section.splitlines() if line.startswith("| **")}
    assert [cell.strip() for cell in lines["entropy"][:4]] == ["−1.000", "<.001", "−1.000", "−1.000"]
    assert [cell.strip() for cell in lines["first token"][0:4:2]] == [".500", "–"], "a task with ties alone counts as 0"
    assert lines.keys() == MEASURES.keys()
    own = next(line for line in pages["pages/fox.md"].splitlines() if line.startswith("Its values"))
    assert "place 1 of 8" in own and "position at L 0.14 (place 2)" in own and "entropy −0.77 (place 2)" in own
    figures = board.figure_files()
    assert "images/tiny/inside/association.svg" in section and "images/tiny/inside/association.dark.svg" in figures
    drawn = figures["images/tiny/inside/association.svg"].decode()
    assert all(f">{name}</text>" in drawn for name in NAMES) and "entropy: τ −1.000" in drawn


@pytest.mark.usefixtures("undrawn")
def test_measures_that_go_with_nothing_are_not_drawn():
    board = PublishedBoard({"tiny": [replace(grid(), probes=records((3, 6, 1, 8, 2, 5, 7, 4)))]}, {})
    inside = board.text_files()["INSIDE.md"].decode()
    assert "for none of 7 measures does the test find that it goes with the score" in inside
    assert "association.svg" not in inside and "images/tiny/inside/association.svg" not in board.figure_files()
