"""``lprime verify``, the part that runs nothing: an honest submission passes; every check fails; nothing breaks it."""

import json
import re
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from submissions import NAME, SOURCE, SUITE, reseal

from leaderboard.submission import CHECK, CHECK_PAGE, RESULTS, SUBMISSION
from leaderboard.verify import STATIC, Verification, verify


def test_an_honest_submission_passes(honest):
    report = verify(honest, SUITE)
    assert {f.check: f.found for f in report.findings if f.status != "passed"} == {}
    assert [f.check for f in report.findings] == [c.name for c in STATIC]
    assert (report.encoding, report.ranking, report.passed) == (NAME, "standard", True)
    assert report.markdown().startswith("# Verification of my\\_encoding\n")


def test_every_check_is_seen_to_fail():
    """By a test of these files, whose calls name it."""
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_verify_*.py"))
    assert [c.name for c in STATIC if f', "{c.name}")' not in text and f', "{c.name}",' not in text] == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


def leaves(content: object, path: tuple = ()) -> list[tuple]:
    """Where everything in a JSON value stands."""
    parts = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return [path] * bool(path) + [leaf for key, value in parts for leaf in leaves(value, (*path, key))]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), path=st.sampled_from([SUBMISSION, RESULTS, CHECK]), value=JSON)
def test_any_value_anywhere_is_told_or_harmless_and_breaks_nothing(honest, data, path, value):
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(shutil.copytree(honest, Path(scratch) / NAME))
        lines = [json.loads(line) for line in (folder / path).read_text().splitlines()] if path == RESULTS else [
            json.loads((folder / path).read_text())
        ]  # fmt: skip
        *steps, last = data.draw(st.sampled_from(leaves(lines[0])))
        place = lines[0]
        for step in steps:
            place = place[step]
        place[last] = value
        (folder / path).write_text("".join(json.dumps(line) + "\n" for line in lines))
        if path != SUBMISSION:
            reseal(folder)
        report = verify(folder, SUITE)
        defects = [f.found for f in report.findings if re.match(r"[A-Z]\w+(Error|Exception):", f.found)]
        assert not defects
        assert Verification.model_validate_json(report.model_dump_json()) == report


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from([SUBMISSION, RESULTS, CHECK, CHECK_PAGE, SOURCE]),
    content=st.binary(max_size=200) | st.text().map(str.encode),
)
def test_any_bytes_anywhere_are_told(honest, path, content):
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(shutil.copytree(honest, Path(scratch) / NAME))
        (folder / path).write_bytes(content)
        assert not verify(folder, SUITE).passed


def test_the_report_survives_as_json(honest):
    report = verify(honest, SUITE)
    assert Verification.model_validate_json(report.model_dump_json()) == report
