"""File names of encodings: what the store refuses, and no two names share a page."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.results.file_names import file_name, page_name
from tasks import InputError

HOSTILE = {
    "../../etc/passwd": "starts with a dot",
    "a/b": "holds a path separator",
    "a\\b": "holds a path separator",
    ".hidden": "starts with a dot",
    "..": "starts with a dot",
    "": "is empty",
    "  ": "is empty",
    "a\nb": "holds a control character",
    "a\x1b[31mb": "holds a control character",
    "a\x00b": "holds a control character",
    "a\u202eb": "holds a control character",
    "a\ud800b": "holds a control character",
    "x" * 300: "is too long",
    "漢" * 60: "is too long",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_refused_in_one_line(name):
    with pytest.raises(InputError) as error:
        file_name(name)
    assert str(error.value).endswith(f"cannot be published: its name {HOSTILE[name]}")
    assert "\n" not in str(error.value) and len(str(error.value)) < 200


def test_page_names():
    assert page_name("rope_partial") == "rope_partial"
    assert page_name("interpolated(rope)") == "interpolated~rope"
    assert page_name("finetuned(interpolated(rope,fixed=True))") == "finetuned~interpolated~rope,fixed=True"
    assert page_name("both(rope(base=1.0),x)") == "both~rope~base=1.0+29,x"
    assert page_name("a|b <c>") == "a+7cb+20+3cc+3e"


def unpage(page):
    """The inverse of ``page_name``, written from its docstring."""
    raw = page.replace("~", "(")
    raw = re.sub(r"(?:\+[0-9a-f]{2})+", lambda m: bytes.fromhex(m[0].replace("+", "")).decode(errors="surrogatepass"), raw)
    return raw + ")" * (raw.count("(") - raw.count(")")) if "~" in page else raw


@given(st.text(alphabet="ab()(),=+~.é|", max_size=12))
def test_no_two_names_share_a_page(name):
    page = page_name(name)
    assert re.fullmatch(r"[A-Za-z0-9._=,+~-]*", page)
    assert unpage(page) == name
