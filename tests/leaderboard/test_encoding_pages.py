"""Encoding pages: every number of every run, its origin, and the command that reproduces it."""

import re
import shlex

import pytest
from board_helpers import table_below
from figure_helpers import figure_of, line_of, lines, texts
from markdown_it import MarkdownIt
from matplotlib.colors import to_hex
from synthetic_results import CURVE, a_card, failure, full, only_grid, record, result, suite, timings

from bench.measure import card as card_of
from bench.measure import measure_card
from bench.runs.run import plan_runs
from leaderboard.data import cards, grid
from leaderboard.figures import encoding_figure
from leaderboard.figures.theme import LIGHT
from leaderboard.render import encoding_pages as pages
from leaderboard.render import publish
from leaderboard.stats import summary
from tasks import InputError

PARSER = MarkdownIt("commonmark").enable("table")


def entries(of, runs, failures=None):
    """Encoding → its entries on one suite."""
    found = {}
    for version in grid.build_grids(of, runs, failures or {}):
        for rows in summary.summarise(version).values():
            for row in rows:
                if row.record:
                    found.setdefault(row.name, []).append(pages.Entry(version, row, rows))
    return found


def page(of, runs, encoding="nope", card=None, failures=None):
    return pages.render_encoding_page(encoding, {of.name: entries(of, runs, failures)[encoding]}, card or card_of.Card())


def test_a_page_lists_the_encodings_it_is_separated_from():
    of = suite(encodings=["nope", "rope", "alibi", "t5"], seeds=[0, 1, 2, 3, 4])
    runs = []
    for name, last in {"nope": 0.9, "rope": 0.5, "alibi": 0.895, "t5": 0.1}.items():
        runs += [result(of, t.task, name, s, (1, 1, last, last + s / 100)) for t in of.tasks for s in of.seeds]
    found = entries(of, runs)
    text = {name: pages.render_encoding_page(name, {of.name: found[name]}, card_of.Card()) for name in found}
    assert (
        "- **Separated, better than**: [rope](rope.md), [t5](t5.md)\n- **Not separated from**: [alibi](alibi.md)\n"
        in text["nope"]
    )
    assert "- **Separated, worse than**: [nope](nope.md), [alibi](alibi.md), [rope](rope.md)\n" in text["t5"]
    assert "separated" not in page(of, [run for run in runs if run.seed == 0]).lower(), "single runs are not compared"


def test_numbers_by_length_show_the_mean_and_every_seed():
    of = suite()
    runs = [result(of, "parity", "nope", s, (1, 1, 0.9, 0.6 + s / 10)) for s in (0, 1)]
    runs += [
        result(of, "sorting", "nope", 0, (1, 0.96, 0.5, 0.1)),
        result(of, "sorting", "nope", 1, (0, 0, 0, 0), status="diverged"),
    ]
    text = page(of, runs, failures={("sorting", "nope", 2): failure("boom")})
    assert table_below(text, "### parity (answer), suite tiny") == [
        ["exact match at", "2", "4 = L", "6", "8", "l ≤ L", "score"],
        ["**mean**", "1.000", "1.000", ".900", ".650", "1.000", "**.592**"],
        ["seed 0", "1.000", "1.000", ".900", ".600", "1.000", ".551"],
        ["seed 1", "1.000", "1.000", ".900", ".700", "1.000", ".634"],
        ["*chance*", ".500", ".500", ".500", ".500", "", ""],
    ]
    assert [row[0] for row in table_below(text, "### sorting (unique), suite tiny")[1:]] == [
        "**mean**", "seed 0", "seed 1, diverged", "seed 2, failed",
    ]  # fmt: skip
    by_task = {row[0]: row[1:] for row in table_below(text, "## Suite tiny")[1:]}
    # Parity less guessing: .8 at 1.5 L and .3 at 2 L.
    assert by_task["parity"][2:] == [f"{1.5 * (2 / 1.5) ** 0.6:.2f}", "1.000", "2"] and by_task["parity"][0] == "4"
    assert by_task["sorting"][3] == ".490 ⚑" and by_task["sorting"][2] == "< 0.50"


def test_a_task_without_a_run_is_named_and_has_no_table():
    of = suite()
    text = page(of, [result(of, "parity")], failures={("sorting", "nope", 0): failure("boom")})
    assert "No result on sorting (failed)." in text and "### sorting" not in text and "Not ranked" in text


def test_every_run_is_listed_with_its_environment():
    of = suite()
    times = timings(12.5, cpu_share=0.7)
    runs = full(of, {"nope": CURVE})
    runs[1] = result(
        of, "parity", "nope", 1, CURVE, timings=times, device="NVIDIA H200", commit="a" * 40, versions={"torch": "3"}
    )
    text = page(of, runs)
    table = table_below(text, "### Runs of suite tiny")[1:]
    assert [(row[0], row[1], row[8]) for row in table] == [
        *[("parity", str(s), n) for s, n in ((0, "1"), (1, "2"), (2, "1"))],
        *[("sorting", str(s), "1") for s in (0, 1, 2)],
    ]
    assert table[1][2:8] == ["done", "800", "2025-01-01T00:00:00Z", "2025-01-01T00:00:09Z", "8.0", "12.50 ‡"]
    assert [row[7] for row in table] == ["10.00", "12.50 ‡", *["10.00"] * 4]
    assert "‡ The machine was busy" in text
    assert "1. cpu, 1 thread; torch 2.13.0; source of the encoding SHA-256 `0123456789abcdef`\n" in text
    assert f"2. NVIDIA H200, 1 thread; torch 3; source of the encoding SHA-256 `0123456789abcdef`; commit `{'a' * 40}`" in text
    assert "Test examples (data hash): parity hash of parity, sorting hash of sorting." in text
    assert "‡" not in page(of, full(of, {"nope": CURVE}))


@pytest.mark.parametrize(
    "encoding", ["rope", "finetuned(interpolated(rope,fixed=True))", "a'b; rm -rf $HOME `x` \"", "```", "-x"]
)
def test_the_command_reproduces_the_first_run_of_any_encoding(encoding):
    of = suite(encodings=["nope"])
    runs = [result(of, "sorting", record(encoding), 3), result(of, "parity", record(encoding), 4)]
    text = page(of, runs, encoding)
    (fence,) = [t for t in PARSER.parse(text) if t.type == "fence"]
    words = shlex.split(fence.content)
    assert words[:2] == ["lprime", "run"] and fence.info == "sh"
    options = dict(zip(words[3::2], words[4::2], strict=True))
    (run,) = plan_runs(of, [options["--encoding"]], [options["--task"]], [int(options["--seed"])])
    assert (words[2], run.encoding, run.task, run.seed) == ("tiny.yaml", encoding, "parity", 4)


@pytest.mark.parametrize(("commit", "shown"), [("c" * 40, True), ("c" * 40 + "-dirty", False), (None, False)])
def test_a_clean_commit_is_checked_out_first(commit, shown):
    of = suite()
    assert (f"git checkout {'c' * 40}\nlprime run" in page(of, [result(of, commit=commit)])) is shown


def test_description_and_measurements():
    text = page(suite(), [result(suite(), encoding=record("nope", settings={"k": 4}))], card=a_card())
    assert "- **Formula**: s = q·k &#124; &#60;b&#62;" in text
    assert "- **Paper**: A, B, [All about nope](https://example.org/nope), 2020" in text
    assert "- **Settings**: k = 4" in text and "- **Implemented from**: the paper" in text
    assert "- different positions have different codes: yes" in text and "only on their differences: no" in text
    assert table_below(text, "## Measured")[1] == ["23", "26.04", "1.25", "19.6", "1.10"]
    assert "different version" not in text and "busy" not in text
    other = page(suite(), [result(suite())], card=a_card(source_sha256="f", cpu_share=0.5))
    assert "The runs below used a different version of its source." in other and "The machine was busy" in other


def test_unknown_facts_are_omitted():
    text = page(suite(), [result(suite())])
    for absent in ("Formula", "Measured", "Behaviour beyond", "None", "commit"):
        assert absent not in text, absent


def test_older_versions_follow_with_their_means_only():
    of = suite()
    older = [result(of, "sorting", "nope", s, (1, 1, 0.2, 0.4 * s), fingerprint="0lder", data_hash="x") for s in (0, 1)]
    text = page(of, [*full(of, {"nope": CURVE}), *older])
    new, old = text.split("## Suite tiny, older version 1, fingerprint `0lder`")
    assert "do not compare with those above" in old and "seed 0" not in old and "```" not in old
    assert "| mean of 2 seeds |" in old and re.search(r"1\.000 \|\s+1\.000 \|\s+\.200 \|\s+\.200 \|", old)
    assert of.fingerprint in new


def test_hostile_names_stay_text():
    of = suite(encodings=["nope"])
    name = "<img src=x onerror=alert(1)>|[a](b)`c`**d**&amp; $e$ http:x"
    hostile = record(name, family="<b>|", title="](x) <script>", link="javascript:alert(1)", settings={"k|": "<i>"})
    text = page(of, [*full(of, {"nope": CURVE}), result(of, "parity", hostile), result(of, "sorting", hostile)], name)
    tokens = PARSER.parse(text)
    assert not [t for t in tokens if t.type == "html_block"]
    inline = [child for t in tokens for child in t.children or []]
    assert {c.content.split()[0].strip("<>") for c in inline if c.type == "html_inline"} <= {
        "picture",
        "source",
        "img",
        "/picture",
    }
    assert {c.attrs["href"] for c in inline if c.type == "link_open"} == {"../README.md"}
    assert name in "".join(c.content for c in next(t for t in tokens if t.type == "inline").children)


def test_the_figure_shows_the_mean_every_seed_and_nope():
    of = suite()
    exact = [(1, 1, 0.5, 0.25), (1, 0.9, 0.4, 0.0), (0.8, 0.7, 0.6, 0.5)]
    runs = [result(of, "sorting", "rope", s, e) for s, e in enumerate(exact)] + [result(of, "sorting", "nope", 0, CURVE)]
    figure = figure_of(encoding_figure.draw_encoding, only_grid(of, runs), "rope")
    (ax,) = figure.axes
    assert line_of(ax, "rope")[1] == pytest.approx((2.8 / 3, 2.6 / 3, 0.5, 0.25))
    seeds = line_of(ax, "seeds")[1].reshape(3, 5)[:, :4]
    assert seeds.tolist() == [list(one) for one in exact]
    (base,) = lines(ax, "nope")
    assert base.get_ydata() == pytest.approx(CURVE) and base.get_linestyle() == "--"
    assert line_of(ax, "seeds of rope")[0].size and not lines(ax, "others")
    shown = texts(figure)
    assert {"Sorting (unique)", "score .396, 3 seeds", "rope: exact match by test length"} <= set(shown)
    assert "Parity" not in "".join(shown) and "chance" not in "".join(shown) and "Dashed: mean of nope." in " ".join(shown)


@pytest.mark.parametrize(("longest", "shown"), [(6, False), (9, True)])
def test_lengths_seen_in_a_later_stage_are_shaded(longest, shown):
    of = suite()
    figure = figure_of(
        encoding_figure.draw_encoding, only_grid(of, [result(of, "sorting", "rope", longest_seen=longest)]), "rope"
    )
    shades = [to_hex(patch.get_facecolor()).upper() for patch in figure.axes[0].patches]
    assert (LIGHT.tuned_shade in shades) is ("in blue" in " ".join(texts(figure))) is shown


def test_cards_are_read_as_written(tmp_path):
    found = {"rope": a_card(), 'a|"b\n': card_of.Card(), "漢": card_of.Card(declared=a_card().declared)}
    cards.write_cards(tmp_path, found)
    assert cards.read_cards(tmp_path) == dict(sorted(found.items()))
    assert len((tmp_path / "results/cards.json").read_text().splitlines()) == 5
    assert cards.read_cards(tmp_path / "nowhere") == {}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"rope": 1}', '{"rope": {"declared": {"authors": "x"}}}', "\x00"])
def test_broken_cards_are_named(tmp_path, text):
    path = tmp_path / "results/cards.json"
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(InputError, match=rf"{re.escape(str(path))} does not hold cards"):
        cards.read_cards(tmp_path)


def test_a_fine_tuning_stage_and_the_announced_length_are_explained():
    known = measure_card.measure_cards(["finetuned(yarn)", "yarn", "nope"], measure=False)
    of = suite()
    runs = full(of, {"yarn": (1, 1, 0.5, 0.2), "nope": (1, 1, 0.5, 0.2)})
    runs += [result(of, t.task, "finetuned(yarn)", s, longest_seen=12) for t in of.tasks for s in of.seeds]
    board = publish.PublishedBoard(cards.with_cards({"tiny": [grid.build_grids(of, runs, {})[0]]}, known), known)
    text = {name: data.decode() for name, data in board.text_files().items() if name.startswith("pages/")}
    tuned, plain = text["pages/finetuned~yarn.md"], text["pages/yarn.md"]
    assert "**Fine-tuning stage**: 1 % of the steps" in tuned and "read N = L′ above" in tuned and "- **N** is" in tuned
    assert "Fine-tuning stage" not in plain and "- **N** is" in plain
    assert "- **N** is" not in text["pages/nope.md"]
