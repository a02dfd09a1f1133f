"""Pages and figures of probes, from synthetic records."""

import re
from dataclasses import replace

import numpy as np
import pytest
from synthetic_results import CURVE, full, only_grid, result, store, suite

from bench.probe.loss import Loss
from bench.probe.record import ProbeRecord, Value
from bench.probe.tables import mean_divergences, tables
from bench.suites.suite import Suite
from leaderboard.data.conditions import suites_with_boards
from leaderboard.data.grid import Grid
from leaderboard.data.probes import of_runs, probe_table
from leaderboard.figures import inside, inside_files
from leaderboard.figures.canvas import figure_settings
from leaderboard.figures.theme import LIGHT
from leaderboard.render.html_page import write_html_page
from leaderboard.render.inside_page import found_table, inside_section, render_inside
from leaderboard.render.publish import PublishedBoard
from tasks import InputError


def test_only_probes_of_ranked_runs_in_their_newest_version_are_shown():
    (run, other) = (result(suite(), "parity", "rope", seed) for seed in (0, 1))
    mine = record("context", "rope", [], "parity").model_copy(
        update={"fingerprint": run.fingerprint, "source_sha256": run.encoding.source_sha256, "version": 2}
    )
    changes = {"fingerprint": "f", "encoding": "mine", "seed": 7, "source_sha256": "s", "version": 1}
    others = [mine.model_copy(update={key: value}) for key, value in changes.items()]
    distance = mine.model_copy(update={"probe": "distance", "version": 1, "seed": 1})
    assert of_runs([*others, mine, distance], run.fingerprint, [run, other]) == [mine, distance]


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


def test_claims_of_papers_are_judged_by_the_rules_of_the_findings():
    def table(suite: str, **distance: float) -> str:
        found = [
            record("similarity", name, [Value("divergence", far + 0.001 * seed, 4, 0, at=f"nope seed {seed}")])
            .model_copy(update={"seed": seed})
            for name, far in distance.items()
            for seed in (0, 1, 2)
        ]  # fmt: skip
        return found_table({suite: found}, {})

    assert "**reproduced**" in table("tiny", t5=0.1, alibi=0.2, sinusoidal=0.3)
    assert "**not reproduced** (alibi − t5 &#62; 0: -0.1000 ± " in table("tiny", t5=0.2, alibi=0.1, sinusoidal=0.3)
    assert table("tiny", t5=0.1, alibi=0.2) == "", "a claim about three encodings"
    assert "**not run**" in table("language", t5=0.1, alibi=0.2, sinusoidal=0.3), "its outcomes alone count there"


def test_the_page_and_the_sections_of_encodings():
    found = [*records(), record("distance", "broken", [], note="the encoding's attention has no weights")]
    page = render_inside({"tiny": found}, {}, {})
    assert "the position in the residual stream: < 1e-9" in page
    assert "the encoding's attention has no weights" in page
    assert "| my&#124;pe" in page and "my|pe" not in page
    section = inside_section("my|pe", {"tiny": found}, {})
    assert "images/tiny/inside/pages/my%2B7cpe.svg" in section
    assert inside_section("unknown", {"tiny": found}, {}) == ""
    assert {table.probe for table in tables(found)} == {*inside.SUITE_FIGURES}


def test_the_page_says_which_models_were_trained_again_on_another_processor():
    run = result(suite(), "parity", "rope", 0)
    there = record("context", "rope", [], "parity").model_copy(update={"device": "cpu (another)"})
    page = render_inside({"tiny": [there]}, {"tiny": [only_grid(suite(), [run])]}, {})
    assert "Models of rope were trained again on cpu (another), whose rounding differs" in page
    for device in (run.device, ""):
        same = [there.model_copy(update={"device": device})]
        assert "trained again" not in render_inside({"tiny": same}, {"tiny": [only_grid(suite(), [run])]}, {})


def test_tables_say_why_numbers_are_missing():
    broken = record("distance", "broken", [], note="no weights")
    partly = record("growth", "broken", [Value("output_std", 0.5, 4, 0)], note="no weights")
    nothing = record("similarity", "alone", [])  # a single run has none to compare with
    (alone, growth) = tables([broken, partly, nothing])
    assert alone.rows == [["broken: no weights", ""]]
    assert growth.rows[0][0] == "broken: no weights" and "0.50" in growth.rows[0]


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
    (table,) = tables(found)
    assert table.rows == [["nope", "0.200", "t5 0.400", "rope 0.700", ""]]


def test_every_figure_shows_every_encoding():
    found = records()
    losses = [Loss("copying", name, 3, width, 1000 * width, 1, {4: 0.1}) for name in NAMES for width in (32, 64)]
    with figure_settings(LIGHT):
        figures = {stem: draw(found, LIGHT) for stem, draw in inside.SUITE_FIGURES.items()} | {
            "loss": inside.loss(inside.losses_by_size(losses), LIGHT)
        }
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
    table = pages["INSIDE.md"].split("Loss within the training length")[-1]
    assert sorted(re.findall(r"\| (nope|rope) +\|.* 2 \| +(\d+) .*\| +([\d.]+) \|", table)) == [
        ("nope", "128", "1.2500"), ("nope", "64", "3.5000"), ("rope", "128", "1.2500"), ("rope", "64", "3.5000"),
    ]  # fmt: skip
    assert "images/words/inside/loss.svg" in board.figure_files()
    assert (of.seeds, of.conditions["width-128"].seeds) == ([0, 1, 2], [0])
    (panel,) = inside_files.loss_panels([words])
    assert panel.lines == dict.fromkeys(("nope", "rope"), ([64, 128], [2.5, 1.25])), "of seed 0, which both sizes have"
    wide = words.conditions["width-128"].all_runs
    lost = [
        run.model_copy(update={"seed": 1, "scores": [s.model_copy(update={"nll": None}) for s in run.scores]}) for run in wide
    ]
    gone = replace(words, conditions={"width-128": only_grid(of.conditions["width-128"], [*wide, *lost])})
    assert inside_files.loss_panels([gone]) == [panel], "a run that diverged has no loss, so its seed is not common"
    apart = replace(words, runs={}, conditions={**words.conditions, "layers-6": grid(of.conditions["layers-6"], 1.0)})
    assert inside_files.loss_panels([apart]) == [], "no two sizes that differ in one thing"
    alone = PublishedBoard({"words": [words]}, {}).text_files()
    assert sorted(alone) == ["INSIDE.md", "README.md"] and "Loss within the training length" in alone["INSIDE.md"].decode()
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


def test_the_table_has_one_row_per_number():
    found = records()
    table = probe_table(found)
    assert table.num_rows == sum(len(one.values) for one in found)
    row = next(
        r for r in table.to_pylist() if (r["probe"], r["encoding"], r["layer"], r["quantity"]) == ("position", "t5", 2, "error")
    )
    assert (row["value"], row["length"], row["head"], row["task"]) == (pytest.approx(3 / 27), 4, None, "copying")
    layers = {probe: {r["layer"] for r in table.to_pylist() if r["probe"] == probe} for probe in ("position", "distance")}
    assert layers == {"position": {0, 1, 2, None}, "distance": {1, 2}}, "as in the figures: 0 is the input"
