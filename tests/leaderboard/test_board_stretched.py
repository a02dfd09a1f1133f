"""RoPE and its stretched forms: when the board shows them, who is among them, and that the picture shows their numbers."""

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon
from picture_parts import only, page_of
from synthetic_results import full, result, store, suite

from bench import encodings
from leaderboard import board, pictures, stretched
from leaderboard.beside import END, HIGH, LOW
from leaderboard.plot import WIDTH
from leaderboard.stretched import HEIGHT
from leaderboard.summary import summarise
from leaderboard.theme import LIGHT

CURVES = {
    "nope": (1, 1, 0.5, 0.25),
    "rope": (1, 0.9, 0.1, 0),
    "yarn": (1, 0.9, 0.4, 0.2),
    "ntk": (1, 0.9, 0.3, 0.1),
}
TUNED = {"finetuned(rope)": (1, 1, 0.6, 0.5), "finetuned(yarn)": (1, 1, 0.8, 0.7)}


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
    assert (stretched.PICTURE in pictures.shown(found, summarise(found))) is is_shown
    text = board.render([found])
    assert (f"## {stretched.TITLE}" in text) is ('src="stretched.svg"' in text) is is_shown


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
    assert 'srcset="stretched.dark.svg"><img' in path.read_text()
    assert all((path.parent / file).read_bytes().startswith(b"<svg") for file in ("stretched.svg", "stretched.dark.svg"))
    assert all((path.parent / file).read_bytes().startswith(b"\x89PNG") for file in ("stretched.png", "stretched.dark.png"))
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
        stretched.ZERO_SHOT: ["interpolated(rope)", "ntk", "yarn", "rope", "nope"],
        stretched.FINE_TUNED: ["finetuned(rope)", "finetuned(yarn)", "rope", "nope"],
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


def in_panels(found, page):
    """(task, side) → encoding → its line, by where on the page it is."""
    named = [artist for artist in page.figure.get_children() if isinstance(artist, Line2D)]
    drawn = [line for line in named if line.get_gid() in {name for side in stretched.sides(found).values() for name in side}]
    middle = stretched.LEFT + (WIDTH - stretched.LEFT) / 2
    tops = sorted({round(min(line.get_ydata()), 6) for line in drawn})
    assert len(tops) == len(found.columns)  # all curves of these tests begin at 1, the top of their panel
    panels = {}
    for line in drawn:
        column = found.columns[tops.index(round(min(line.get_ydata()), 6))]
        side = list(stretched.sides(found))[int(min(line.get_xdata()) > middle - 0.1)]
        panels.setdefault((column.task, side), {})[line.get_gid()] = line
    return panels


def test_lines_are_the_results():
    of = suite()
    found = one_of_each(of)
    page = page_of(stretched.picture, found)
    panels = in_panels(found, page)
    assert len(panels) == 4
    for (task, side), drawn in panels.items():
        members = stretched.sides(found)[side]
        assert set(drawn) == set(members)
        for name, line in drawn.items():
            assert (line.get_color(), line.get_linewidth() > 1) == (members[name].colour(LIGHT), True)
            up = np.asarray(line.get_ydata())
            exact = found.exact(task, name).mean(0)
            assert 1 - (up - up.min()) / (HEIGHT / (HIGH - LOW)) == pytest.approx(exact)


def test_names_stand_beside_each_panel_with_the_mean_past_l():
    page = page_of(stretched.picture, one_of_each(suite()))
    drawn = [t.get_text() for t in page.figure.texts]
    for title in (stretched.ZERO_SHOT, stretched.FINE_TUNED):
        assert drawn.count(title) == 1
    assert drawn.count("rope") == drawn.count("nope") == 4 and drawn.count("yarn") == drawn.count("finetuned(yarn)") == 2
    assert [drawn.count(mean) for mean in (".375", ".050", ".300", ".200", ".550", ".750")] == [4, 4, 2, 2, 2, 2]
    assert "fine-tuned: dashed" in " ".join(drawn).replace("\n", " ")


@pytest.mark.parametrize(("longest", "blue"), [(12, True), (9, True), (6, False)])
def test_longer_lengths_are_shaded_on_the_side_that_saw_them(longest, blue):
    sorting = {"task": "sorting", "variant": "unique", "train_length": 6}
    of = suite(tasks=[sorting])
    found = only(of, full(of, CURVES) + tuned(of, "sorting", longest))
    page = page_of(stretched.picture, found)
    areas = [artist for artist in page.figure.get_children() if isinstance(artist, Polygon)]
    shades = [area for area in areas if to_hex(area.get_facecolor()).upper() == LIGHT.tuned_shade]
    assert len(shades) == blue
    panels = in_panels(found, page)
    if blue:
        line = panels["sorting", stretched.FINE_TUNED]["rope"].get_xdata()
        ends = shades[0].get_xy()[:, 0]
        assert ends.min() == pytest.approx(line[1])
        assert ends.max() == pytest.approx(line[2] if longest == 9 else line[3] + END)
    assert ("in blue" in " ".join(t.get_text() for t in page.figure.texts)) is blue
    assert stretched.longest_seen(found, found.columns[0], ["finetuned(rope)", "rope"]) == longest
    assert stretched.longest_seen(found, found.columns[0], ["rope", "nobody"]) == 6


def test_the_same_results_give_the_same_bytes(tmp_path):
    code = (
        "import sys, hashlib; sys.path.insert(0, sys.argv[1])\n"
        "from test_board_stretched import *\n"
        "print(hashlib.sha256(pictures.draw(one_of_each(suite()))['stretched.svg']).hexdigest())"
    )
    rc = tmp_path / "matplotlibrc"
    rc.write_text("font.size: 20\nlegend.frameon: True\n")
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    env = {"MATPLOTLIBRC": str(rc), "PYTHONHASHSEED": "7"}
    here = hashlib.sha256(pictures.draw(one_of_each(suite()))["stretched.svg"]).hexdigest()
    assert subprocess.check_output(command, env=env, text=True).strip() == here
