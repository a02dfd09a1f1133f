"""RoPE and its stretched forms: when the board shows them, who is among them, and that the picture shows their numbers."""

import hashlib
import subprocess
import sys
from pathlib import Path

import matplotlib.figure
import numpy as np
import pytest
from markdown_it import MarkdownIt
from matplotlib.colors import to_hex
from synthetic_results import full, result, store, suite

from bench import encodings
from leaderboard import board, grid, pictures, stretched

CURVES = {
    "nope": (1, 1, 0.5, 0.25),
    "rope": (1, 0.9, 0.1, 0),
    "yarn": (1, 0.9, 0.4, 0.2),
    "ntk": (1, 0.9, 0.3, 0.1),
}
TUNED = {"finetuned(rope)": (1, 1, 0.6, 0.5), "finetuned(yarn)": (1, 1, 0.8, 0.7)}


def only(of, runs):
    (found,) = grid.build(of, runs, {})
    return found


def one_of_each(of):
    return only(of, full(of, CURVES) + [r for t in of.tasks for r in tuned(of, t.task)])


def tuned(of, task, longest=12):
    return [result(of, task, name, s, exact, longest_seen=longest) for name, exact in TUNED.items() for s in of.seeds]


@pytest.mark.parametrize(
    ("names", "is_shown"),
    [
        (["rope", "yarn"], True),
        (["rope", "finetuned(interpolated(rope))"], True),
        (["nope", "rope", "alibi"], False),
        (["rope", "finetuned(rope)"], False),  # longer lengths, but nothing stretched
        (["yarn", "ntk"], False),  # nothing to compare with
        (["rope", "interpolated(alibi)", "rope_partial", "ssmax(yarn)"], False),
    ],
)
def test_it_appears_only_with_rope_and_a_stretched_form(names, is_shown):
    of = suite(encodings=names)
    found = only(of, full(of, {name: (1, 1, 0.5, 0) for name in names}))
    assert stretched.shown(found) is is_shown
    assert (stretched.PICTURE in pictures.draw(found)) is is_shown
    text = board.render([found])
    assert (f"## {stretched.TITLE}" in text) is (f"({stretched.PICTURE})" in text) is is_shown


def test_an_expected_encoding_without_runs_does_not_count():
    of = suite(encodings=["rope", "yarn"])
    assert not stretched.shown(only(of, full(of, {"rope": (1, 1, 0, 0)})))
    apart = [result(of, "sorting", "rope"), result(of, "parity", "yarn")]
    assert not stretched.shown(only(of, apart))
    found = only(of, [*apart, result(of, "sorting", "yarn")])
    assert [c.task for c in stretched.compared(found)] == ["sorting"]


def test_written_board_links_the_picture_and_says_who_saw_longer_lengths(tmp_path):
    of = suite()
    store(tmp_path, one_of_each(of).all_runs)
    path = board.write(of, tmp_path)
    tokens = MarkdownIt("commonmark").parse(path.read_text())
    shown = [t.children[0].attrs["src"] for t in tokens if t.children and t.children[0].type == "image"]
    assert stretched.PICTURE in shown and (path.parent / stretched.PICTURE).read_bytes().startswith(b"\x89PNG")
    assert "**these encodings saw lengths past L**" in path.read_text()


def test_members_of_each_side():
    of = suite()
    extra = {
        name: (1, 1, 0, 0)
        for name in ("alibi", "rope_partial", "interpolated(alibi)", "finetuned(alibi)", "interpolated(rope)")
    }
    found = only(of, [*one_of_each(of).all_runs, *full(of, extra)])
    members = {title: list(side) for title, side in stretched.sides(found).items()}
    assert members == {
        stretched.ZERO_SHOT: ["nope", "rope", "interpolated(rope)", "ntk", "yarn"],
        stretched.FINE_TUNED: ["nope", "rope", "finetuned(rope)", "finetuned(yarn)"],
    }
    assert list(stretched.sides(only(of, full(of, CURVES)))) == [stretched.ZERO_SHOT]
    no_zero_shot = only(of, [*full(of, {"rope": (1, 1, 0, 0)}), *tuned(of, "sorting")])
    assert list(stretched.sides(no_zero_shot)) == [stretched.FINE_TUNED]


def test_a_form_looks_the_same_on_both_sides_and_no_two_of_one_side_look_alike():
    of = suite()
    names = [stretched.BELOW, stretched.REFERENCE, *stretched.FORMS]
    names += [stretched.TUNED.format(name) for name in names[1:]]
    both = stretched.sides(only(of, full(of, {name: (1, 1, 0.5, 0) for name in names})))
    zero_shot, fine_tuned = both[stretched.ZERO_SHOT], both[stretched.FINE_TUNED]
    assert all(zero_shot[form] == fine_tuned[stretched.TUNED.format(form)] for form in stretched.FORMS)
    assert all(len(set(side.values())) == len(side) for side in both.values())


def test_the_names_are_those_of_encodings_and_the_list_lacks_no_stretched_form():
    for name in (stretched.BELOW, stretched.REFERENCE, *stretched.FORMS):
        assert encodings.get(name).info.name == name
        assert encodings.get(stretched.TUNED.format(name)).info.name == stretched.TUNED.format(name)
    stretching = {name for name in encodings.catalogue() if name.startswith(("ntk", "yarn", "interpolated(rope", "finetuned("))}
    assert stretching <= {*stretched.FORMS, *(stretched.TUNED.format(n) for n in (stretched.REFERENCE, *stretched.FORMS))}


def figure_of(found, monkeypatch):
    """The figure behind the picture."""
    kept = []
    monkeypatch.setattr(stretched, "png", lambda figure: kept.append(figure) or b"")
    stretched.picture(found)
    assert isinstance(kept[0], matplotlib.figure.Figure)
    return kept[0]


def panels_of(figure, across):
    """Rows of panels, legends first."""
    return [figure.axes[i : i + across] for i in range(0, len(figure.axes), across)]


def test_lines_are_the_results(monkeypatch):
    of = suite()
    found = one_of_each(of)
    legends, *rows = panels_of(figure_of(found, monkeypatch), 2)
    assert len(rows) == len(found.columns)
    for column, panels in zip(found.columns, rows, strict=True):
        for members, axes in zip(stretched.sides(found).values(), panels, strict=True):
            means = [line for line in axes.get_lines() if line.get_linewidth() > 0.6 and line.get_zorder() >= 3]
            assert [line.get_color() for line in means] == [style.colour for style in members.values()]
            for line, name in zip(means, members, strict=True):
                expected = np.stack([column.at, found.exact(column.task, name).mean(0)], 1)
                assert line.get_xydata() == pytest.approx(expected)
    named = [[text.get_text() for text in axes.get_legend().get_texts()] for axes in legends]
    assert named == [
        [".375  nope", ".050  rope", ".200  ntk", ".300  yarn"],
        [".375  nope (not fine-tuned)", ".050  rope (not fine-tuned)", ".550  finetuned(rope)", ".750  finetuned(yarn)"],
    ]


def test_a_mean_over_other_tasks_is_not_printed():
    of = suite()
    found = only(of, [*full(of, CURVES), *tuned(of, "sorting")])
    assert stretched.mean(found, stretched.compared(found), "yarn") == ".300"
    assert stretched.mean(found, stretched.compared(found), "finetuned(yarn)") == "–"


@pytest.mark.parametrize(("longest", "end"), [(12, 12 * 1.08), (9, 9), (6, None)])
def test_longer_lengths_are_shaded_on_the_side_that_saw_them(monkeypatch, longest, end):
    sorting = {"task": "sorting", "variant": "unique", "train_length": 6}
    of = suite(tasks=[sorting])
    figure = figure_of(only(of, full(of, CURVES) + tuned(of, "sorting", longest)), monkeypatch)
    zero_shot, fine_tuned = (
        [p for p in axes.patches if to_hex(p.get_facecolor()).upper() == stretched.TUNED_SHADE] for axes in figure.axes[2:]
    )
    assert zero_shot == []
    assert [(p.get_x(), p.get_x() + p.get_width()) for p in fine_tuned] == ([pytest.approx((6, end))] if end else [])
    (shared,) = figure.legends
    assert ("fine-tuned, l > L" in [text.get_text() for text in shared.get_texts()]) is bool(end)


def test_the_same_results_give_the_same_bytes(tmp_path):
    code = (
        "import sys, hashlib; sys.path.insert(0, sys.argv[1])\n"
        "from test_board_stretched import *\n"
        "print(hashlib.sha256(pictures.draw(one_of_each(suite()))[stretched.PICTURE]).hexdigest())"
    )
    rc = tmp_path / "matplotlibrc"
    rc.write_text("font.size: 20\nlegend.frameon: True\n")
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    env = {"MATPLOTLIBRC": str(rc), "PYTHONHASHSEED": "7"}
    here = hashlib.sha256(pictures.draw(one_of_each(suite()))[stretched.PICTURE]).hexdigest()
    assert subprocess.check_output(command, env=env, text=True).strip() == here
