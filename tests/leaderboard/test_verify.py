"""``lprime verify`` without rerunning: honest submissions pass, every check can fail, no input breaks it."""

import json
import re
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from submissions import NAME, SOURCE, SUITE, reseal

from leaderboard.submission.manifest import CHECK, CHECK_PAGE, RESULTS, SUBMISSION
from leaderboard.submission.verify import STATIC, Verification, verify_submission


def test_an_honest_submission_passes(honest):
    report = verify_submission(honest, SUITE)
    assert {f.check: f.found for f in report.findings if f.status != "passed"} == {}
    assert [f.check for f in report.findings] == [c.name for c in STATIC]
    assert (report.encoding, report.ranking, report.passed) == (NAME, "standard", True)
    assert report.markdown().startswith("# Verification of my\\_encoding\n")
    assert Verification.model_validate_json(report.model_dump_json()) == report


def test_every_check_has_a_test_that_makes_it_fail():
    """Searches the other test files for calls of ``fault_of``."""
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_verify_*.py"))
    assert [c.name for c in STATIC if f', "{c.name}")' not in text and f', "{c.name}",' not in text] == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


def all_paths(content: object, path: tuple = ()) -> list[tuple]:
    """The path of every value in a JSON value."""
    parts = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return [path] * bool(path) + [inner for key, value in parts for inner in all_paths(value, (*path, key))]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), path=st.sampled_from([SUBMISSION, RESULTS, CHECK]), value=JSON)
def test_no_json_value_breaks_a_check(honest, data, path, value):
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(shutil.copytree(honest, Path(scratch) / NAME))
        text = (folder / path).read_text()
        lines = [json.loads(line) for line in (text.splitlines() if path == RESULTS else [text])]
        *steps, last = data.draw(st.sampled_from(all_paths(lines[0])))
        parent = lines[0]
        for step in steps:
            parent = parent[step]
        parent[last] = value
        (folder / path).write_text("".join(json.dumps(line) + "\n" for line in lines))
        if path != SUBMISSION:
            reseal(folder)
        report = verify_submission(folder, SUITE)
        defects = [f.found for f in report.findings if re.match(r"[A-Z]\w+(Error|Exception):", f.found)]
        assert not defects
        assert Verification.model_validate_json(report.model_dump_json()) == report


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from([SUBMISSION, RESULTS, CHECK, CHECK_PAGE, SOURCE]),
    content=st.binary(max_size=200) | st.text().map(str.encode),
)
def test_arbitrary_bytes_in_a_file_fail(honest, path, content):
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(shutil.copytree(honest, Path(scratch) / NAME))
        (folder / path).write_bytes(content)
        assert not verify_submission(folder, SUITE).passed
