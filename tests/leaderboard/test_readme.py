"""The published board: first tables, working links, and the same bytes from the same results."""

import html
import random
import re
import subprocess
import sys
from urllib.parse import unquote

import pytest
from board_helpers import plain
from markdown_it import MarkdownIt
from support import ROOT
from synthetic_results import CURVE, full, record, result, store, store_failure, suite, timings

from leaderboard import PUBLISHED
from leaderboard.data import store as stored
from leaderboard.render import publish as published
from leaderboard.render.markdown import heading_anchor

DETAILS = "suites/tiny/README.md"
OUTSIDE = {"../../CONTRIBUTING.md", "../RULES.md"}
"""Links from the front page to other files of the repository."""
PARSER = MarkdownIt("commonmark").enable("table")
HOSTILE = [
    "my|pe", "<img src=x onerror=alert(1)>", "a](javascript:x)", "`code`", "**bold**", "a_b_", "$x$", "&amp;", "# head",
    "漢字 é",
]  # fmt: skip


def publish(tmp_path, runs, of=None, failures=()):
    """Publish runs and render; the board's folder."""
    board = tmp_path / "board"
    for name, fingerprint in dict.fromkeys((run.suite, run.fingerprint) for run in runs):
        out = tmp_path / "runs" / fingerprint  # two versions of one run cannot share a folder
        store(out, [run for run in runs if (run.suite, run.fingerprint) == (name, fingerprint)])
        for run in failures if of and fingerprint == of.fingerprint else ():
            store_failure(out, run, "out of <memory> | 8 GiB")
        stored.publish_runs(of or name, out, board)
    published.render_published(board)
    return board


def text_of(board):
    return (board / "README.md").read_text()


def first_tables(text):
    """Every table above the details, a list of dictionaries each."""
    found = []
    for block in text.split("\n\n"):
        if block.startswith("|"):
            header, _, *rows = [[plain(cell).strip("*") for cell in line.strip("|").split("|")] for line in block.splitlines()]
            found.append([dict(zip(header, row, strict=True)) for row in rows])
    return found


def places(file):
    """Every link target and picture of a markdown file, as written."""
    tokens = [child for t in PARSER.parse(file.read_text()) for child in [t, *(t.children or [])]]
    found = [t.attrs.get("href") or t.attrs.get("src") for t in tokens if t.type in ("link_open", "image")]
    for t in tokens:
        if t.type in ("html_inline", "html_block"):
            found += [html.unescape(place) for place in re.findall(r'(?:src|srcset|href)="([^"]*)"', t.content)]
    return found


def headings(file):
    """Anchors as GitHub makes them, from the text as it is shown."""
    tokens = PARSER.parse(file.read_text())
    shown = ["".join(c.content for c in t.children) for i, t in enumerate(tokens) if tokens[i - 1].type == "heading_open"]
    return ["".join(c for c in text.lower() if c.isalnum() or c in " -_").replace(" ", "-") for text in shown]


def mixed(of):
    """All ranking classes, a gap, a failure, a divergence and an older version."""
    runs = full(of, {"nope": CURVE, "interpolated(rope)": (1, 1, 0.9, 0.8)})
    runs += [
        result(of, t, record("abacus", ranking="task-aware"), s, (1, 1, 1, 1)) for t in ("parity", "sorting") for s in (0, 1)
    ]
    runs += [result(of, t, "finetuned(rope)", s, (1, 1, 1, 0.9), longest_seen=8) for t in ("parity", "sorting") for s in (0, 1)]
    runs += [result(of, "sorting", "rope", 0, CURVE), result(of, "sorting", "rope", 1, (0, 0, 0, 0), status="diverged")]
    return runs


@pytest.fixture(scope="module")
def mixed_board(tmp_path_factory):
    of = suite()
    return publish(tmp_path_factory.mktemp("mixed"), mixed(of), of, [result(of, "parity", "rope", 0)])


def test_a_table_for_each_ranking_class_comes_first(mixed_board):
    text = text_of(mixed_board)
    standard, longer, aware = first_tables(text)
    assert [row["encoding"] for row in standard] == ["[interpolated(rope)]", "[nope]", "[rope] ⚑ 0–2/3"]
    assert [row["encoding"] for row in longer] == ["[finetuned(rope)] 2/3"]
    assert [row["encoding"] for row in aware] == ["[abacus] 2/3"]
    # .9 and .8, weighted log 1.5 to log 2/1.5; parity's chance is ½, so .8 and .6.
    assert standard[0]["sorting"] == ".858" and standard[0]["parity"] == ".717"
    assert [standard[2][title] for title in ("parity", "sorting", "score", "tier")] == ["failed", ".198", "–", "–"]
    assert list(standard[0])[:4] == ["tier", "encoding", "reach", "score"] and standard[0]["family"] == "made up"
    for title in ("**Main table: ", "**Longer lengths: ", "**Task-aware: "):
        assert title in text


@pytest.mark.usefixtures("undrawn")
def test_seeds_and_tiers_are_shown_only_where_they_inform(tmp_path):
    of, single = suite(), suite(seeds=[0])
    curves = {"nope": CURVE, "rope": (1, 1, 0.9, 0.8)}
    (complete,) = first_tables(text_of(publish(tmp_path / "complete", full(of, curves), of)))
    (incomplete,) = first_tables(text_of(publish(tmp_path / "incomplete", full(of, curves)[1:], of)))
    (untested,) = first_tables(text_of(publish(tmp_path / "single", full(single, curves))))
    assert {row["encoding"] for row in complete} == {"[nope]", "[rope]"}
    assert {row["encoding"] for row in incomplete} == {"[nope] 2–3/3", "[rope]"}
    assert "tier" in complete[0] and "tier" not in untested[0]


def test_failed_runs_are_listed(mixed_board):
    below = (mixed_board / DETAILS).read_text().split("## Failed, diverged and missing runs")[1]
    assert "- failed: rope on parity, seed 0: out of &#60;memory&#62; &#124; 8 GiB" in below
    assert (
        "- diverged: rope on sorting, seed 1" in below and "- missing: rope on parity (seeds 1, 2); sorting (seed 2)" in below
    )


def test_every_link_of_every_file_resolves(tmp_path):
    of = suite()
    older = full(of, {"nope": CURVE}, fingerprint="0lder", data_hash="x", finished="2024-01-01T00:00:00Z")
    runs = mixed(of) + older + [result(of, t, name) for name in HOSTILE for t in ("parity", "sorting")]
    board = publish(tmp_path, runs, of)
    files = sorted(board.rglob("*.md"))
    assert len(files) == 1 + 3 + 5 + len(HOSTILE)
    seen = set()
    for file in files:
        for place in places(file):
            if place.startswith("https://example.org/"):
                continue
            target, _, anchor = unquote(place).partition("#")
            there = (file.parent / target).resolve() if target else file
            if target in OUTSIDE:
                there = (ROOT / PUBLISHED / target).resolve()
            assert there.exists() and (target in OUTSIDE or there.is_relative_to(board)), (file, place)
            assert not anchor or anchor in headings(there), (file, place)
            seen.add(there)
    drawn = {p for p in board.rglob("*") if p.suffix in (".svg", ".md")}
    assert drawn <= {p.resolve() for p in seen | {board / "README.md"}}, "nothing is there that nothing leads to"


@pytest.mark.usefixtures("undrawn")
def test_hostile_names_stay_text(tmp_path):
    of = suite(encodings=["nope"])
    board = publish(tmp_path, [result(of, t, name) for name in HOSTILE for t in ("parity", "sorting")], of)
    tokens = PARSER.parse(text_of(board))
    inline = [child for t in tokens for child in t.children or []]
    assert {re.match(r"</?(\w+)", c.content)[1] for c in inline if c.type == "html_inline"} <= {
        "picture",
        "source",
        "img",
        "sub",
        "wbr",
    }
    assert not [t for t in tokens if t.type == "html_block" and "onerror" in t.content and "&" not in t.content]
    linked = set()
    for t in tokens:
        children = t.children or []
        for i, child in enumerate(children):
            if child.type == "link_open" and child.attrs["href"].startswith("pages/"):
                end = next(j for j in range(i, len(children)) if children[j].type == "link_close")
                linked.add("".join(c.content for c in children[i + 1 : end] if c.type != "html_inline"))
    assert linked == set(HOSTILE)
    widths = {
        line.count("|") for block in text_of(board).split("\n\n") if block.startswith("|") for line in block.splitlines()[:1]
    }
    assert widths == {line.count("|") for line in text_of(board).splitlines() if line.startswith("|")}, "no name adds a cell"


@pytest.mark.usefixtures("undrawn")
def test_encodings_without_a_run_have_no_page_and_no_link(tmp_path):
    of = suite(encodings=["nope", "rope"])
    board = publish(tmp_path, full(of, {"nope": CURVE}), of)
    assert [p.name for p in (board / "pages").iterdir()] == ["nope.md"]
    assert "[rope]" not in text_of(board)


@pytest.mark.usefixtures("undrawn")
def test_older_versions_have_separate_sections_on_the_page_of_the_suite(tmp_path):
    of = suite()
    older = full(
        of, {"nope": (1, 1, 0, 0), "alibi": (1, 1, 1, 1)}, fingerprint="0lder", data_hash="x", finished="2024-01-01T00:00:00Z"
    )
    board = publish(tmp_path, [*full(of, {"nope": CURVE}), *older], of)
    new, old = (board / DETAILS).read_text().split("## Version 1, fingerprint `0lder`")
    assert "alibi" not in new + text_of(board) and "[alibi]" in old and "do not compare with those above" in old
    assert "[Version 1, fingerprint" in new, "the line of links names it"


def test_the_suite_with_most_runs_has_its_tables_on_the_front_page_and_others_their_answers(tmp_path):
    few, many = suite(name="aa"), suite(name="zz")
    board = publish(tmp_path, [result(few, task.task) for task in few.tasks] + full(many, {"nope": CURVE}))
    text = text_of(board)
    assert re.findall("^## Suite.*", text, re.MULTILINE) == ["## Suite zz", "## Suite aa"]
    first, second = text.split("## Suite aa")
    assert "\n|" in first and "\n|" not in second and "alone has run on every task" in second and "do not compare" in second
    assert {p.name for p in (board / "images").iterdir()} == {p.name for p in (board / "suites").iterdir()} == {"aa", "zz"}


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("shares", "times", "time"),
    [
        ((0.5, 0.5), (40, 20), "–"),
        ((0.5, 0.95), (40, 20), "2.00"),
        ((None, None), (40, 20), "3.00"),
        ((None, None), (0, 20), "2.00"),
    ],
)
def test_times_of_a_busy_machine_and_missing_ones_are_ignored(tmp_path, shares, times, time):
    of = suite(seeds=[0, 1], encodings=["nope", "rope"])
    runs = full(of, {"nope": CURVE})
    for seed, (share, step_ms) in enumerate(zip(shares, times, strict=True)):
        busy = timings(step_ms, cpu_share=share)
        runs += [result(of, task, "rope", seed, CURVE, timings=busy) for task in ("parity", "sorting")]
    text = text_of(publish(tmp_path, runs, of))
    ((row,),) = [[row for row in table if row["encoding"] == "[rope]"] for table in first_tables(text)]
    assert row["step time"] == time


def test_heading_anchors_are_those_of_github():
    assert heading_anchor("Suite small") == "suite-small"
    assert heading_anchor("RoPE and its stretched forms, small") == "rope-and-its-stretched-forms-small"
    assert heading_anchor("Older version 1, fingerprint `0a1b`, a_b") == "older-version-1-fingerprint-0a1b-a_b"
    assert heading_anchor("a &#124; b") == "a--b"


def test_the_same_results_give_the_same_bytes_in_any_order_and_any_process(tmp_path):
    of = suite()
    runs = mixed(of)
    found = []
    for turn in range(2):
        out, board = tmp_path / f"runs{turn}", tmp_path / f"board{turn}"
        random.Random(turn).shuffle(runs)
        for part in (runs[:7], runs):
            store(out, part)
            stored.publish_runs(of, out, board)
        published.render_published(board)
        found.append({p.relative_to(board).as_posix(): p.read_bytes() for p in board.rglob("*") if p.is_file()})
    assert found[0] == found[1]
    code = "import sys; from pathlib import Path; from leaderboard.render.publish import check_rendered\n"
    code += "print(check_rendered(Path(sys.argv[1])), *{'torch', 'bench.encodings', 'pandas'} & sys.modules.keys())"
    rc = tmp_path / "matplotlibrc"
    rc.write_text("font.size: 20\nlines.linewidth: 9\nsavefig.facecolor: black\nsvg.fonttype: path\nfont.family: serif\n")
    environment = {"MATPLOTLIBRC": str(rc), "PYTHONHASHSEED": "11", "TZ": "Asia/Tokyo", "LC_ALL": "C", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code, board], capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.stdout.endswith(" result files\n"), "drawn again, without torch or the encodings: " + done.stderr


@pytest.mark.usefixtures("undrawn")
def test_chance_and_recipe_are_stated_and_encodings_without_runs_are_not(tmp_path):
    of = suite(encodings=["nope", "rope", "t5"])
    board = publish(tmp_path, full(of, {"nope": CURVE, "rope": (1, 1, 0.9, 0.8)}), of)
    text = "".join(path.read_text() for path in sorted(board.rglob("*.md")))
    assert "Guessing gives an exact match of .500 on parity." in text
    assert "suites/tiny.yaml" not in text  # no suite of ours
    assert "t5" not in text
