"""The pictures of a board as files: which there are, that they are the same each time, and that nothing breaks them."""

import io
import re
import subprocess
import sys
import warnings
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import matplotlib
import numpy as np
import pytest
from markdown_it import MarkdownIt
from picture_parts import SVG, classes_of, crowd, only, simple, svg_texts
from PIL import Image
from synthetic_results import full, record, result, suite

from leaderboard import grid, markdown, pictures, plot
from leaderboard.theme import DARK, LIGHT

HOSTILE = ["$x^{$", "_under_", "<b>&amp;", "a|b", "\\frac", "a\nb", "\x1b[31m", "漢字", "\ufffe", "--> <!--", "w" * 300]


@pytest.fixture(scope="module")
def files():
    return pictures.draw(simple())


def test_every_picture_comes_in_two_formats_and_two_looks(files):
    stems = ["accuracy", "scores", "profiles", "cost", "accuracy-parity", "accuracy-sorting"]
    assert list(pictures.shown(simple(), classes_of(simple()))) == stems
    endings = ("svg", "png", "dark.svg", "dark.png")
    assert sorted(files) == sorted(f"{stem}.{ending}" for stem in stems for ending in endings)


@pytest.mark.parametrize(("look", "theme"), [("light", LIGHT), ("dark", DARK)])
def test_a_png_has_the_size_of_its_svg_and_the_background_of_its_look(files, look, theme):
    for stem in pictures.shown(simple(), classes_of(simple())):
        image = Image.open(io.BytesIO(files[plot.file_name(stem, "png", look)]))
        root = ET.fromstring(files[plot.file_name(stem, "svg", look)])
        width, height = (float(root.get(side).removesuffix("pt")) for side in ("width", "height"))
        assert image.size == (pytest.approx(width / 72 * plot.DPI, abs=1), pytest.approx(height / 72 * plot.DPI, abs=1))
        assert image.size[0] > 1000
        pixels = np.asarray(image.convert("RGB"))
        assert (pixels[[0, 0, -1, -1], [0, -1, 0, -1]] == tuple(bytes.fromhex(theme.background[1:]))).all()
        painted = {element.get("style") for element in root.iter(f"{SVG}path")}
        assert f"fill: {theme.background.lower()}" in painted


def test_the_looks_differ_in_colours_alone(files):
    def bare(data):
        root = ET.fromstring(data)
        return [(e.tag, e.get("d"), e.text if e.tag != f"{SVG}style" else None, e.get("x"), e.get("y")) for e in root.iter()]

    for stem in pictures.shown(simple(), classes_of(simple())):
        light, dark = files[f"{stem}.svg"], files[f"{stem}.dark.svg"]
        if stem != "scores":  # there texts are black or white by what they stand on, and so are drawn in another order
            assert bare(light) == bare(dark)
        assert svg_texts(light) == svg_texts(dark)
        assert light != dark


def test_no_file_tells_when_or_with_what_it_was_made(files):
    for name, data in files.items():
        assert b"matplotlib" not in data.lower() and b"tIME" not in data and b"<dc:date>" not in data, name
        if name.endswith("svg"):
            ids = re.findall(rb'id="(\w+)"', data)
            assert all(not re.search(rb"axes_|text_|figure_", name) for name in ids)


def test_bytes_are_the_same_in_another_process_with_other_settings(tmp_path):
    code = (
        "import sys, hashlib; sys.path.insert(0, sys.argv[1])\n"
        "from test_board_pictures import *\n"
        "files = pictures.draw(simple())\n"
        "print({name: hashlib.sha256(data).hexdigest() for name, data in files.items()})"
    )
    rc = tmp_path / "matplotlibrc"
    rc.write_text("font.size: 20\nlines.linewidth: 9\nsavefig.facecolor: black\nsvg.fonttype: path\nfont.family: serif\n")
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    printed = [
        subprocess.check_output(command, env=env, text=True) for env in ({}, {"MATPLOTLIBRC": str(rc), "PYTHONHASHSEED": "7"})
    ]
    assert printed[0] == printed[1] and printed[0].count(".png") == 12 and printed[0].count(".svg") == 12


def test_the_order_of_results_does_not_matter(files):
    of = suite()
    runs = simple().all_runs
    assert pictures.draw(only(of, runs[::-1])) == files


def test_classes_that_are_at_hand_are_not_computed_again(files, monkeypatch):
    found, classes = simple(), classes_of(simple())
    monkeypatch.setattr(pictures, "summarise", None)
    assert pictures.draw(found, classes) == files


@pytest.mark.parametrize("count", [6, 40])
def test_every_encoding_is_drawn_and_named(count):
    found = crowd(count)
    files = pictures.draw(found)
    for stem in ("accuracy-parity", "accuracy-sorting", "scores", "cost"):
        named = svg_texts(files[f"{stem}.svg"])
        assert {name: named.count(name) for name in found.encodings} == dict.fromkeys(found.encodings, 1), stem


def test_texts_are_held_to_the_width_they_were_laid_out_with(files):
    root = ET.fromstring(files["accuracy.svg"])
    (title,) = (e for e in root.iter(f"{SVG}text") if e.text == "tiny: exact match by test length")
    with plot.fresh_settings(LIGHT):
        width = plot.text_width("tiny: exact match by test length", plot.LARGE, True)
    assert float(title.get("textLength")) == pytest.approx(width, abs=0.06) and 150 < width < 300


def test_drawing_leaves_settings_as_they_were():
    with matplotlib.rc_context({"font.size": 17}):
        pictures.draw(only(suite(), [result(suite())]))
        assert matplotlib.rcParams["font.size"] == 17


def test_hostile_names_are_drawn_as_they_are():
    of = suite(seeds=[0], encodings=["nope"])
    hostile = [r for n in ["nope", *HOSTILE] for r in full(of, {n: (1, 1, 0.5, 0)})]
    strange = [r.model_copy(update={"encoding": record(r.encoding.name, family="$a_<|")}) for r in hostile]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        files = pictures.draw(only(of, strange))
    assert len(files) == 24
    for stem in ("scores", "cost", "accuracy-sorting"):
        named = svg_texts(files[f"{stem}.svg"])
        for name in ("$x^{$", "_under_", "<b>&amp;", "a|b", "\\frac", "a b", "�[31m", "漢字", "�", "--> <!--"):
            assert name in named, (stem, name)
    assert any(text.startswith("$a_<|") for text in svg_texts(files["accuracy-sorting.svg"]))


@pytest.mark.parametrize(
    "runs",
    [
        lambda of: [result(of)],
        lambda of: [result(of, status="diverged", exact=(0, 0, 0, 0))],
        lambda of: full(of, {"nope": (0, 0, 0, 0)}),
        lambda of: full(of, {"rope": (1, 1, 1, 1)}),
        lambda of: full(of, {"a": (1, 1, 0.5, 0), "b": (1, 1, 0.5, 0)}),
    ],
    ids=["one run", "one diverged", "all zero", "no base, all perfect", "all alike"],
)
def test_little_to_show_is_shown(runs):
    of = suite()
    found = only(of, runs(of))
    files = pictures.draw(found)
    assert len(files) == 4 * len(pictures.shown(found, classes_of(found)))
    assert all("nan" not in data.decode() for name, data in files.items() if name.endswith("svg"))


def test_file_names_cannot_leave_the_folder_nor_be_each_others():
    assert pictures.of_task("key_retrieval") == "accuracy-key_retrieval"
    assert pictures.of_task("../../x") == "accuracy-%2E%2E%2F%2E%2E%2Fx"
    assert plot.file_name(pictures.of_task("x"), "svg", "dark") != plot.file_name(pictures.of_task("x.dark"), "svg")


def test_no_runs_no_pictures():
    of = suite()
    empty, _ = grid.build(of, [result(of, fingerprint="older")], {})
    assert pictures.draw(empty) == pictures.shown(empty, {}) == {}


@pytest.mark.parametrize("alt", ["plain", *HOSTILE])
def test_markup_follows_the_theme_whatever_it_says(alt):
    inline = MarkdownIt("commonmark").parse(markdown.picture(alt, "a b.svg", "a%2E.dark.svg"))[1].children
    assert [t.type for t in inline] == ["html_inline"] * 4
    (_, _), (_, source), (_, image), (_, _) = parsed("".join(t.content for t in inline))
    assert source == {"media": "(prefers-color-scheme: dark)", "srcset": "a%252E.dark.svg"}
    assert image == {"src": "a%20b.svg", "alt": markdown.printable(alt, 200)}


def parsed(text):
    """Tags of HTML, with their attributes."""
    found = []
    parser = HTMLParser()
    parser.handle_starttag = parser.handle_startendtag = lambda tag, attributes: found.append((tag, dict(attributes)))
    parser.handle_endtag = lambda tag: found.append((tag, None))
    parser.feed(text)
    return found


def test_a_ranking_class_of_any_name_is_drawn():
    of = suite()
    runs = full(of, {"nope": (1, 1, 0.5, 0.25)})
    odd = record("rope").model_copy(update={"ranking": "a\x01b $x^{$"})
    runs += [result(of, t.task, odd, s) for t in of.tasks for s in of.seeds]
    assert pictures.draw(only(of, runs))
