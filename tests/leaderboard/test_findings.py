"""Published findings: files, numbers read from runs, verdicts, the page, and the command."""

import json
import math

import numpy as np
import pytest
from commands import printed, refused, run_command
from scipy.stats import ttest_ind

from bench.findings.finding import Finding, Source, shipped_findings
from bench.findings.reading import Reading
from bench.plugins.registry import get_encoding
from bench.probe import theorem
from bench.probe.record import ProbeRecord, Value
from bench.suites.yaml_config import validated
from leaderboard.data.outcomes import OUTCOMES, Outcome, read_outcomes
from leaderboard.format import ABSENT
from leaderboard.render.findings_page import NOT_RUN, STALE, interval, render_findings
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
    found = shipped_findings()
    assert len(found) > 5
    for one in found:
        assert one.grids or one.code
        content = one.model_dump(exclude_unset=True)
        assert Finding.model_validate(content | {"tried": "more", "minutes": 99.0}).rule == one.rule
        assert Finding.model_validate(content | {"tolerance": 9.0}).rule != one.rule


def test_a_misspelt_key_inside_a_mapping_is_named():
    with pytest.raises(InputError, match=r"unknown key in probes\.to_nope 'lenght'; did you mean 'length'\?"):
        validated(Finding, {"name": "one", "probes": {"to_nope": {"lenght": "train"}}}, "finding one")


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
        ({"more": 0.55, "than": ["b"]}, (), (0.5, 0.51, 0.49), "in order only"),  # .05 below .55; published: .15 below
        ({"more": 0.45, "than": ["b"]}, (), (0.5, 0.51, 0.49), "not reproduced"),
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


def test_an_estimate_has_as_many_decimals_as_its_half_width():
    shown = [interval(*pair) for pair in ((-1.7e-05, 0.0019), (-0.0151, 0.0354), (0.0216, 0.08), (569.3, 27.4), (3.6, 270.2))]
    assert shown == ["0.0000 ± 0.0019", "-0.015 ± 0.035", "0.022 ± 0.080", "569 ± 27", "4 ± 270"]
    shown = [interval(*pair) for pair in ((2.47e-07, 1.31e-07), (3.2e30, 1.1e29), (0.5, 0.0), (-0.0, 0.0))]
    assert shown == ["2.47e-07 ± 1.3e-07", "3.2e+30 ± 1.1e+29", "0.5 ± 0", "0 ± 0"]
    assert interval(0.5, None) == interval(0.5, math.inf) == "0.5" and interval(math.nan, 0.02) == ABSENT


def test_the_page_shows_each_verdict_and_ignores_outcomes_of_another_rule():
    outcome = Outcome(
        rule=finding().rule, samples=samples(a=(0.9, 0.91, 0.92), b=(0.4, 0.41, 0.42)), minutes=1, finished="2026-01-01",
        commit=None, versions={},
    )  # fmt: skip
    page = render_findings([finding()], {"one": outcome})
    assert "1 reproduced, 0 in order only" in page and "0.500 ± 0.023" in page and "| 0.9" in page
    stale = outcome.model_copy(update={"rule": "another"})
    assert STALE in render_findings([finding()], {"one": stale}) and NOT_RUN in render_findings([finding()], {})
    shipped = render_findings(shipped_findings(), {})
    assert "; 5 seeds; tolerance 0.05. `lprime reproduce binary_majority`" in shipped and "; 0 seeds" not in shipped


def test_reproduce_runs_the_cheapest_two_and_reports_a_wrong_result(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # no checkout: the verdicts of others are those installed
    monkeypatch.setattr("bench.runs.git_commit.current_commit", lambda: "one")
    names = [one.name for one in shipped_findings()[:2]]
    assert names == ["permutation_equivariance", "positions_without_encoding"]
    out = ("--out", tmp_path, "--json")
    assert [row["verdict"] for row in json.loads(printed("reproduce", *names, *out))] == ["reproduced"] * 2
    listed = json.loads(printed("reproduce", *out))
    assert {row["verdict"] for row in listed if row["name"] in names} == {"reproduced"}
    assert {row["verdict"] for row in listed if row["name"] not in names} != {NOT_RUN}
    first = read_outcomes(tmp_path / OUTCOMES)
    printed("reproduce", *names, *out)
    assert read_outcomes(tmp_path / OUTCOMES) == first, "not measured again"

    monkeypatch.setattr("bench.runs.git_commit.current_commit", lambda: "another")
    monkeypatch.setattr(theorem, "NoPE", get_encoding("alibi"))  # an order signal where there must be none
    code, text, _ = run_command("reproduce", *names, *out)
    assert (code, [row["verdict"] for row in json.loads(text)]) == (1, ["not reproduced"] * 2)
    assert "did you mean 'permutation_equivariance'" in refused("reproduce", "permutation_equivarianc", *out)


def test_a_finding_about_probes_is_trained_measured_and_judged(tmp_path, monkeypatch):
    suite = {
        "base": "quick", "encodings": ["nope", "alibi"], "seeds": [3], "recipe": {"steps": 2, "warmup_steps": 0},
        "model": {"layers": 1}, "tasks": [{"task": "sorting", "variant": "unique", "train_length": 4, "test_at": [1, 2]}],
    }  # fmt: skip
    probes = {
        "far": {"probe": "distance", "quantity": "mean_distance", "length": "longest"},
        "alike": {"probe": "similarity", "quantity": "divergence", "at": "nope seed {seed}"},
    }
    one = finding(
        suites={"x": suite}, probes=probes, code="", seeds=[], source=SOURCE.model_copy(update={"numbers": {}}),
        expect=[{"more": ["far/nope"], "than": ["far/alibi"]}, {"at_most": {"alike/nope": 1.0}}],
    )  # fmt: skip
    monkeypatch.setattr("bench.findings.finding.load_finding", lambda name: one)
    code, text, _ = run_command("reproduce", "one", "--out", tmp_path, "--workers", "1", "--json")
    (shown,) = json.loads(text, parse_constant=pytest.fail)
    assert [part["estimate"] for part in shown["parts"][1:]] == [None], "not NaN, which is no JSON"
    assert (code, shown["verdict"]) == (0, "not decided")  # one seed
    assert shown["samples"].keys() == {"far/nope", "far/alibi", "alike/alibi"}  # nothing of nope's likeness to itself
    folder = tmp_path / one.grids["x"].name / "sorting" / "alibi" / "seed-3"
    values = json.loads((folder / "probe-distance.json").read_text())["values"]
    heads = [value for name, value, length, *_ in values if (name, length) == ("mean_distance", 8)]
    assert len(heads) > 1 and shown["samples"]["far/alibi"] == {"3": pytest.approx(np.mean(heads))}


def test_readings_choose_and_combine_values():
    values = [
        ("error", 2.0, 4, 0),
        ("error", 1.0, 4, 1),
        ("error", 5.0, 8, 1),
        ("chance", 4.0, 4, None),
        ("chance", 8.0, 8, None),
    ]
    record = ProbeRecord(
        probe="position", version=1, suite="s", suite_version=1, fingerprint="f", task="t", variant="v", train_length=4,
        encoding="e", seed=0, source_sha256="s", values=[Value(*v) for v in values], seconds=0.0,
    )  # fmt: skip

    def read(**content) -> float | None:
        return Reading.model_validate({"probe": "position", "quantity": "error"} | content).of([record, record])

    assert read(length="train") == 1.5 and read(length="train", layers=[1]) == 1 and read(length="longest") == 5
    assert read(length="train", layers=[0], over={"quantity": "chance", "length": "train"}) == 0.5
    assert read(length="longest", less={"quantity": "error", "length": "train"}) == 3.5
    assert read(layers=[7]) is None and read(less={"quantity": "other"}) is None
