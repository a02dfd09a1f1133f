"""Published findings: files, numbers read from runs, verdicts, the page, and the command."""

import json

import numpy as np
import pytest
from commands import printed, refused, run_command
from scipy.stats import ttest_ind

from bench.findings import permutation_equivariance
from bench.findings.finding import Finding, Source, load_finding, shipped_findings
from bench.plugins.registry import get_encoding
from leaderboard.data.outcomes import Outcome
from leaderboard.render.findings_page import NOT_RUN, STALE, render_findings
from leaderboard.stats.verdict import judge
from tasks import InputError

SOURCE = Source(
    paper="Somebody 2020, Title",
    link="https://example.org/paper",
    where="table 1",
    setting="large",
    numbers={"a": 0.9, "b": 0.4},
)


def finding(**changes) -> Finding:
    content = {
        "name": "one", "claim": "a beats b.", "source": SOURCE, "differences": ["small"], "minutes": 1.0, "code": "one",
        "seeds": [0, 1, 2], "unit": "accuracy", "expect": [{"more": ["a"], "than": ["b"]}], "tolerance": 0.1,
    }  # fmt: skip
    return Finding.model_validate(content | changes)


def samples(**values):
    return {label: dict(enumerate(numbers)) for label, numbers in values.items()}


def test_every_finding_is_valid_and_its_rule_ignores_what_was_tried():
    for one in map(load_finding, shipped_findings()):
        assert one.grids or one.code
        content = one.model_dump(exclude_unset=True)
        assert Finding.model_validate(content | {"tried": "more", "minutes": 99.0}).rule == one.rule
        assert Finding.model_validate(content | {"tolerance": 9.0}).rule != one.rule


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ((0.90, 0.91, 0.92), (0.40, 0.41, 0.42), "reproduced"),
        ((0.60, 0.61, 0.62), (0.40, 0.41, 0.42), "in order only"),  # .2 instead of .5 ± .1
        ((0.20, 0.90, 0.10), (0.40, 0.01, 0.42), "not decided"),
        ((0.40, 0.41, 0.42), (0.60, 0.61, 0.62), "not reproduced"),
        ((0.9,), (0.4,), "not decided"),  # no interval
        ((), (0.4, 0.5), "not decided"),
    ],
)
def test_an_order_is_judged_by_welchs_interval(a, b, verdict):
    found, (part,) = judge(finding(), samples(a=a, b=b))
    assert found == part.verdict == verdict
    if min(len(a), len(b)) > 1:
        expected = ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
        assert np.allclose([part.estimate - part.half_width, part.estimate + part.half_width], expected)


@pytest.mark.parametrize(
    ("expect", "a", "b", "verdict"),
    [
        ({"same": ["a", "b"], "within": 0.1}, (0.50, 0.51, 0.52), (0.50, 0.52, 0.51), "reproduced"),
        ({"same": ["a", "b"], "within": 0.1}, (0.50, 0.51, 0.52), (0.90, 0.92, 0.91), "not reproduced"),
        ({"same": ["a", "b"], "within": 0.01}, (0.50, 0.51, 0.52), (0.50, 0.52, 0.51), "not decided"),
        ({"at_most": {"a": 0.1}}, (0.01, 0.02), (), "reproduced"),
        ({"at_most": {"a": 0.1}}, (0.01, 0.2), (), "not reproduced"),
        ({"at_most": {"a": 0.1}}, (), (), "not decided"),
        ({"more": ["b"], "than": 0.3}, (), (0.5, 0.51, 0.49), "in order only"),  # .2 above .3; published: .1 above
        ({"more": ["b"], "than": 0.3, "by": 0.4}, (), (0.5, 0.51, 0.49), "not reproduced"),
    ],
)
def test_other_expectations(expect, a, b, verdict):
    one = finding(expect=[expect], tolerance=0.05)
    assert judge(one, samples(a=a, b=b))[0] == verdict


def test_a_finding_has_the_worst_verdict_of_its_parts():
    one = finding(expect=[{"more": ["a"], "than": ["b"]}, {"more": ["b"], "than": ["a"]}])
    assert judge(one, samples(a=(0.9, 0.91, 0.92), b=(0.4, 0.41, 0.42)))[0] == "not reproduced"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"expect": [{"more": ["a"]}]}, "expected `more` with `than`"),
        ({"code": ""}, "expected `suites` with `measure` or `probes`, or `code` with `seeds`"),
        (
            {
                "code": "", "seeds": [], "suites": {"x": {"base": "quick", "encodings": ["nope"]}},
                "measure": {"score": "exact", "past": 1.0, "to": 2.0},
            },
            "label 'a'",
        ),
    ],
)  # fmt: skip
def test_contradictory_findings_are_refused(changes, message):
    with pytest.raises((ValueError, InputError), match=message):
        finding(**changes)


def test_the_page_shows_each_verdict_and_ignores_outcomes_of_another_rule():
    outcome = Outcome(
        rule=finding().rule, samples=samples(a=(0.9, 0.91, 0.92), b=(0.4, 0.41, 0.42)), minutes=1, finished="2026-01-01",
        commit=None, versions={},
    )  # fmt: skip
    page = render_findings([finding()], {"one": outcome})
    assert "1 reproduced, 0 in order only" in page and "0.5 ± 0.023" in page and "| 0.9" in page
    stale = outcome.model_copy(update={"rule": "another"})
    assert STALE in render_findings([finding()], {"one": stale}) and NOT_RUN in render_findings([finding()], {})


def test_reproduce_runs_a_finding_and_reports_a_wrong_result(tmp_path, capsys, monkeypatch):
    name = "permutation_equivariance"
    assert json.loads(printed(capsys, "reproduce", name, "--out", tmp_path, "--json"))["verdict"] == "reproduced"
    listed = json.loads(printed(capsys, "reproduce", "--out", tmp_path, "--json"))
    assert {row["name"]: row["verdict"] for row in listed}[name] == "reproduced"

    monkeypatch.setattr(permutation_equivariance, "NoPE", get_encoding("alibi"))  # an order signal without a mask
    code, out, _ = run_command(capsys, "reproduce", name, "--out", tmp_path, "--json")
    assert (code, json.loads(out)["verdict"]) == (1, "not reproduced")
    assert "did you mean 'permutation_equivariance'" in refused(
        capsys, "reproduce", "permutation_equivarianc", "--out", tmp_path
    )
