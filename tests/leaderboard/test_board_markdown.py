"""Markdown with arbitrary names of encodings and tasks and arbitrary error messages."""

import re
from collections import Counter

import pytest
from board_helpers import whole_board
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from synthetic_results import CURVE, full, only_grid, suite

from leaderboard.format import printable
from leaderboard.render import markdown

PARSER = MarkdownIt("commonmark").enable("table")
HOSTILE = [
    "a|b", "x\\|y", "<b>bold</b>", "<!--", "two\nlines", "`code`", "**b**", "_a_", "[x](javascript:alert(1))", "\x1b[31mred",
    "&lt;", "$x$", "~~s~~", "# h #", "www.example.org", "https://example.org", "a@b.c", "\u202eevil", "漢字", "'\"", "\\",
]  # fmt: skip


@given(st.one_of(st.sampled_from(HOSTILE), st.text(min_size=1, max_size=60)))
def test_any_text_survives_in_a_table_and_in_a_line(name):
    shown = printable(name)
    tokens = PARSER.parse(markdown.markdown_table(["encoding", "x"], [[markdown.escape(name), "1"]]))
    inline = [t for t in tokens if t.type == "inline"]
    assert [t.content for t in inline][2:] != [] and len(inline) == 4  # two header cells, two cells: none was split
    assert visible_text(inline[2]) == shown
    line = [t for t in PARSER.parse(f"- failed: {markdown.escape(name)} on sorting") if t.type == "inline"]
    assert [visible_text(t) for t in line] == [f"failed: {shown} on sorting"]


def visible_text(inline):
    """The text a reader sees, which must be nothing but text."""
    assert {child.type for child in inline.children} <= {"text", "text_special"}, inline.children
    return "".join(child.content for child in inline.children)


@pytest.mark.parametrize("name", HOSTILE)
def test_escaped_text_holds_nothing_that_github_turns_into_links(name):
    shown = markdown.escape(name)
    assert not any(start in shown for start in ("://", "www.", "@", "|", "<", "`", "\n", "\x1b", "\u202e"))


@given(st.text(max_size=40))
def test_links_are_intact_with_any_target(rest):
    text = markdown.link("name", f"https://example.org/{rest}")
    (inline,) = [t for t in PARSER.parse(f"- {text}") if t.type == "inline"]
    assert [c.type for c in inline.children] == ["link_open", "text", "link_close"]
    assert inline.children[0].attrs["href"].startswith("https://example.org/")
    assert "|" not in text


@pytest.mark.parametrize(
    "target", ["javascript:alert(1)", "data:text/html,x", "", "//example.org", "http://[", "file:///etc/passwd"]
)
def test_targets_that_are_no_web_address_are_not_linked(target):
    assert markdown.link("name", target) == "name"
    assert markdown.linked_name("name", markdown.web_address(target)) == "name"


def tags(name):
    """How often each tag is on the board of an encoding of this name."""
    of = suite(encodings=["nope"])
    html = PARSER.render(whole_board([only_grid(of, full(of, {"nope": CURVE, name: (1, 1, 1, 1)}))]))
    return Counter(tag for tag in re.findall(r"<(\w+)", html) if tag != "wbr")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_encoding_adds_no_tag(name):
    assert tags(name) == tags("plain")


def test_names_of_ordinary_encodings_stay_readable():
    assert markdown.escape("key_retrieval") == "key_retrieval"
    assert markdown.linked_name("a(b_c,d=1)", None) == "a(<wbr>b_<wbr>c,<wbr>d=<wbr>1)"


def test_names_link_to_the_papers():
    of = suite(encodings=["nope"])
    html = PARSER.render(whole_board([only_grid(of, full(of, {"nope": CURVE}))]))
    assert '<td style="text-align:left"><a href="https://example.org/nope">nope</a></td>' in html
