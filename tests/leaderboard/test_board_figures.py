"""The figures of a board as files: which exist, that their bytes tell no time, and that no input breaks them."""

import warnings
from functools import partial
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import matplotlib
import pytest
from figure_helpers import SVG, crowd, figure_of, overlaps, simple, svg_texts
from markdown_it import MarkdownIt
from synthetic_results import full, only_grid, record, result, suite

from leaderboard.data import grid
from leaderboard.figures import board_figures, canvas, cost, encoding_figure, families, heatmap, overview, profiles, stretched
from leaderboard.figures.theme import DARK, LIGHT
from leaderboard.format import printable
from leaderboard.render import markdown
from leaderboard.stats.summary import summarise

HOSTILE = ["$x^{$", "_under_", "<b>&amp;", "a|b", "\\frac", "a\nb", "\x1b[31m", "漢字", "\ufffe", "--> <!--", "w" * 300]
STEMS = ["accuracy", "scores", "profiles", "cost", "accuracy-parity", "accuracy-sorting"]


def with_stretched():
    """A grid that has all figures."""
    of = suite()
    return only_grid(of, full(of, {"nope": (1, 1, 0.5, 0.25), "rope": (1, 0.9, 0.1, 0), "yarn": (1, 0.9, 0.4, 0.2)}))


def hostile():
    of = suite(seeds=[0], encodings=["nope"])
    runs = [r for n in ["nope", *HOSTILE] for r in full(of, {n: (1, 1, 0.5, 0)})]
    return only_grid(of, [r.model_copy(update={"encoding": record(r.encoding.name, family="$a_<|")}) for r in runs])


@pytest.fixture(scope="module")
def files():
    return board_figures.draw(with_stretched())


def test_every_figure_is_drawn_in_both_looks(files):
    assert list(board_figures.alt_texts(simple(), summarise(simple()))) == STEMS
    assert list(board_figures.alt_texts(with_stretched(), summarise(with_stretched()))) == [*STEMS, "stretched"]
    assert sorted(files) == sorted(f"{stem}.{ending}" for stem in [*STEMS, "stretched"] for ending in ("svg", "dark.svg"))
    for name, data in files.items():
        assert b"<dc:date>" not in data and b"Matplotlib v" not in data, name


@pytest.mark.parametrize("stem", [*STEMS, "stretched"])
def test_the_looks_differ_only_in_colours_and_have_their_backgrounds(files, stem):
    light, dark = (ET.fromstring(files[canvas.file_name(stem, look)]) for look in ("light", "dark"))
    for root, look in ((light, LIGHT), (dark, DARK)):
        assert next(root.iter(f"{SVG}path")).get("style") == f"fill: {look.background.lower()}"
    if stem != "scores":  # its texts are black or white depending on the colour below, and so in another order
        bare = [[(e.tag, e.get("d"), e.text, e.get("x"), e.get("y")) for e in root.iter()] for root in (light, dark)]
        assert bare[0] == bare[1]
    assert svg_texts(files[f"{stem}.svg"]) == svg_texts(files[f"{stem}.dark.svg"])


def test_drawing_does_not_change_matplotlibs_settings():
    with matplotlib.rc_context({"font.size": 17}):
        canvas.render_svgs(lambda theme: canvas.new_figure("t", 1, theme)[0])
        assert matplotlib.rcParams["font.size"] == 17


def test_every_encoding_is_named_once_and_files_stay_small():
    found = crowd(40)
    files = board_figures.draw(found)
    for stem in ("accuracy-parity", "accuracy-sorting", "scores", "cost"):
        named = svg_texts(files[f"{stem}.svg"])
        assert {name: named.count(name) for name in found.encodings} == dict.fromkeys(found.encodings, 1), stem
    assert max(map(len, files.values())) < 250_000
    assert len(encoding_figure.render_encoding(found, "e01")["light"]) < 60_000


@pytest.mark.parametrize("make", [with_stretched, partial(crowd, 40), hostile])
def test_texts_do_not_overlap_and_are_not_cut_off(make):
    found = make()
    classes = summarise(found)
    draws = [(overview.draw_overview, found, classes), (heatmap.draw_heatmap, found, classes), (cost.draw_cost, classes)]
    draws += [(profiles.draw_profiles, classes), (encoding_figure.draw_encoding, found, found.encodings[-1])]
    draws += [(families.draw_families, found, column, classes) for column in found.columns]
    draws += [(stretched.draw_stretched, found)] if stretched.compared(found) else []
    for draw, *arguments in draws:
        assert overlaps(figure_of(draw, *arguments)) == [], draw.__name__


def test_hostile_names_are_drawn_as_they_are():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        files = board_figures.draw(hostile())
        page = encoding_figure.render_encoding(hostile(), "<b>&amp;")["dark"]
    assert len(files) == 2 * len(STEMS)
    assert ET.fromstring(page).findtext(f"{SVG}title") == "<b>&amp;: exact match by test length"
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
def test_grids_with_few_or_equal_runs_are_drawn(runs):
    of = suite()
    found = only_grid(of, runs(of))
    files = board_figures.draw(found)
    assert len(files) == 2 * len(board_figures.alt_texts(found, summarise(found)))
    assert all(b"nan" not in data for data in files.values())


def test_file_names_stay_in_the_folder_and_are_distinct():
    assert board_figures.task_stem("key_retrieval") == "accuracy-key_retrieval"
    assert board_figures.task_stem("../../x") == "accuracy-%2E%2E%2F%2E%2E%2Fx"
    assert canvas.file_name(board_figures.task_stem("x"), "dark") != canvas.file_name(
        board_figures.task_stem("x.dark"), "light"
    )


def test_a_grid_without_runs_has_no_figures():
    of = suite()
    empty, _ = grid.build_grids(of, [result(of, fingerprint="older")], {})
    assert board_figures.draw(empty) == board_figures.alt_texts(empty, {}) == {}


@pytest.mark.parametrize("alt", ["plain", *HOSTILE])
def test_picture_markup_follows_the_theme_with_any_alt_text(alt):
    text = markdown.themed_picture(alt, {"light": "a b.svg", "dark": "a%2E.dark.svg"}.__getitem__)
    inline = MarkdownIt("commonmark").parse(text)[1].children
    assert [t.type for t in inline] == ["html_inline"] * 4
    (_, _), (_, source), (_, image), (_, _) = parsed("".join(t.content for t in inline))
    assert source == {"media": "(prefers-color-scheme: dark)", "srcset": "a%252E.dark.svg"}
    assert image == {"src": "a%20b.svg", "alt": printable(alt, 200)}


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
    assert board_figures.draw(only_grid(of, runs))
