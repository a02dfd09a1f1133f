"""Pages and figures of probes, from synthetic records."""

from dataclasses import replace

import numpy as np
import pytest
from synthetic_results import CURVE, full, only_grid, result, store, suite

from bench.probe.record import ProbeRecord, Value
from bench.suites.suite import Suite
from leaderboard.data.conditions import suites_with_boards
from leaderboard.data.grid import Grid
from leaderboard.data.probes import mean_divergences
from leaderboard.figures import inside, inside_files
from leaderboard.figures.canvas import figure_settings
from leaderboard.figures.theme import LIGHT
from leaderboard.render.html_page import write_html_page
from leaderboard.render.inside_page import inside_section, render_inside
from leaderboard.render.publish import PublishedBoard
from tasks import InputError

NAMES = ("nope", "t5", "alibi", "sinusoidal", "rope", "my|pe")


def record(probe: str, encoding: str, values: list[Value], task: str = "copying", note: str = "") -> ProbeRecord:
    return ProbeRecord(
        probe=probe, version=1, suite="tiny", suite_version=1, fingerprint="f", task=task, variant="v", train_length=4,
        encoding=encoding, seed=0, source_sha256="s", note=note, values=values, seconds=0.1,
    )  # fmt: skip


def records() -> list[ProbeRecord]:
    """Attention alike within (nope, t5, alibi) and (sinusoidal, rope, my|pe)."""
    found = []
    for n, name in enumerate(NAMES):
        errors = [(3.0 if name != "sinusoidal" else 0.1) / (layer + 1) ** 3 for layer in range(3)]
        values = [Value("error", error, 4, layer) for layer, error in enumerate(errors)]
        values += [Value("untrained", error + 1, 4, layer) for layer, error in enumerate(errors)]
        found.append(record("position", name, [*values, Value("chance", 3.0, 4), Value("positions", 9, 4)]))
        heads = [(length, layer, head) for length in (4, 8) for layer in (0, 1) for head in (0, 1)]
        found.append(record("distance", name, [Value(q, 0.3, *at) for at in heads for q in ("mean_distance", "peak_distance")]))
        names = ("entropy", "largest_weight", "logit_range", "output_std", "first_token")
        grown = [Value(q, 0.5 / length, length, 0) for length in (4, 8) for q in names]
        slopes = [Value(f"slope of {q}", -0.5, None, 0) for q in names[:4]]
        found.append(record("growth", name, [*grown, *slopes]))
        cut = [Value(q, 0.9, 8) for q in ("accuracy", "accuracy_cut", "nll", "nll_cut")]
        found.append(record("context", name, cut))
        found.append(
            record("needle", name, [Value("accuracy", 0.1 * n, length, at=str(d)) for length in (4, 8) for d in (0, 1)])
        )
        far = [
            Value("divergence", 0.1 if n // 3 == m // 3 else 0.4, 4, 0, at=f"{other} seed 0")
            for m, other in enumerate(NAMES)
            if m != n
        ]
        found.append(record("similarity", name, far))
        found.append(record("excess", name, [Value("excess", 0.1, 4), Value("excess", 0.2, 8)], "language"))
    return found


def test_the_page_and_the_sections_of_encodings():
    found = [*records(), record("distance", "broken", [], note="the encoding's attention has no weights")]
    section = inside_section("my|pe", {"tiny": found}, {})
    assert "images/tiny/inside/pages/my%2B7cpe.svg" in section
    assert inside_section("unknown", {"tiny": found}, {}) == ""


def test_the_page_says_which_models_were_trained_again_on_another_processor():
    run = result(suite(), "parity", "rope", 0)
    there = record("context", "rope", [], "parity").model_copy(update={"device": "cpu (another)"})
    page = render_inside({"tiny": [there]}, {"tiny": [only_grid(suite(), [run])]}, {})
    assert "Models of rope were trained again on cpu (another), whose rounding differs" in page
    for device in (run.device, ""):
        same = [there.model_copy(update={"device": device})]
        assert "trained again" not in render_inside({"tiny": same}, {"tiny": [only_grid(suite(), [run])]}, {})


def test_encodings_with_like_attention_are_neighbours_in_the_matrix():
    names, table = inside.divergence_matrix(records())
    groups = [NAMES.index(name) // 3 for name in names]
    assert groups in ([0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0])
    for (row, column), value in np.ndenumerate(table):
        assert np.isnan(value) if row == column else value == pytest.approx(0.1 if groups[row] == groups[column] else 0.4)


def test_models_of_different_seeds_are_compared_where_there_are_some():
    """Models of one seed are more alike: they begin with the same weights."""

    def of_seed(encoding: str, seed: int, far: dict[str, float]) -> ProbeRecord:
        values = [Value("divergence", value, 4, layer, at=at) for at, value in far.items() for layer in (0, 1)]
        return record("similarity", encoding, [*values, Value("divergence", 9.0, 8, 0, at=next(iter(far)))]).model_copy(
            update={"seed": seed}
        )

    found = [
        of_seed("nope", 0, {"t5 seed 0": 0.1, "t5 seed 1": 0.3, "nope seed 1": 0.2, "rope seed 0": 0.7}),
        of_seed("nope", 1, {"t5 seed 0": 0.5, "t5 seed 1": 0.1, "nope seed 0": 0.2}),
    ]
    pairs = {other: value for (_, _, other), value in mean_divergences(found).items()}
    assert pairs == pytest.approx({"t5": 0.4, "nope": 0.2, "rope": 0.7})


def test_every_figure_shows_every_encoding():
    found = records()
    with figure_settings(LIGHT):
        figures = {stem: draw(found, LIGHT) for stem, draw in inside.SUITE_FIGURES.items()}
        own = inside_files.encoding_figure(found, "rope", LIGHT)
    for stem, figure in figures.items():
        texts = {text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))}
        assert set(NAMES) <= texts, stem
    assert len(own.axes) == 6
    assert inside_files.suite_stems(found) == list(inside.SUITE_FIGURES)


def test_runs_of_a_suite_without_ranked_tasks_are_only_on_the_page_of_probes(tmp_path):
    of = suite(
        name="words",
        tasks=[{"task": "language", "variant": "topics", "train_length": 8}],
        vary={"encodings": ["nope", "rope"], "seeds": [0], "conditions": {"width": [128], "layers": [6]}},
    )

    def grid(own: Suite, loss: float) -> Grid:
        size = {"model": 1000 * own.model.width, "encoding": 0}
        runs = full(own, dict.fromkeys(("nope", "rope"), (0, 0, 0, 0)), parameters=size)
        scored = [{"scores": [score.model_copy(update={"nll": loss + run.seed}) for score in run.scores]} for run in runs]
        return only_grid(own, [run.model_copy(update=scores) for run, scores in zip(runs, scored, strict=True)])

    ranked = suite()
    words = replace(grid(of, 2.5), conditions={"width-128": grid(of.conditions["width-128"], 1.25)})
    grids = {"tiny": [only_grid(ranked, full(ranked, {"nope": CURVE}))], "words": [words]}
    probed = replace(words, probes=[record("excess", "nope", [Value("excess", 0.1, 8)], "language")])
    board = PublishedBoard(grids | {"words": [probed]}, {})
    pages = {path: data.decode() for path, data in board.text_files().items()}
    assert sorted(path for path, text in pages.items() if "words" in text) == ["INSIDE.md", "pages/nope.md"]
    assert [path for path in pages if path.startswith("suites/words")] == []
    older = PublishedBoard({"tiny": [*grids["tiny"], words], "words": [words, *grids["tiny"]]}, {})
    assert {name: [one.name for one in versions] for name, versions in older.suites.items()} == {
        "tiny": ["tiny"],
        "words": ["tiny"],
    }
    html = write_html_page(grids, tmp_path).read_text()
    assert "suite words" not in html.lower() and "suite tiny" in html.lower()
    with pytest.raises(InputError, match="suite words has no task that boards rank by"):
        write_html_page({"words": [words]}, tmp_path)
    store(tmp_path / "runs", [*words.all_runs, *grids["tiny"][0].all_runs])
    (tmp_path / "runs/words/.slurm").mkdir()
    assert suites_with_boards(tmp_path / "runs") == ["tiny"]
