"""Published findings: files, numbers read from runs, verdicts, and the command."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from commands import printed, refused, run_command
from scipy.stats import fisher_exact, ttest_ind

from bench.findings import permutation_equivariance, positions_without_encoding
from bench.findings.finding import Finding, Planned, Source, shipped_findings
from bench.findings.outcome import OUTCOMES, Outcome, read_outcomes
from bench.findings.reading import Measure, Reading
from bench.findings.verdict import NOT_RUN, STALE, holm, judge, verdict_of
from bench.plugins.registry import get_encoding
from bench.probe.record import ProbeRecord, Value
from bench.result import LengthScore

NUMBERS = {"a": 0.9, "b": 0.4}
SOURCE = Source(paper="Somebody 2020, Title", link="https://example.org", where="table 1", setting="large", numbers=NUMBERS)


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
        changes = {"tried": "more", "minutes": 99.0, "withdrawn": "unfair", "objection": "small"}
        assert Finding.model_validate(content | changes).rule == one.rule
        assert Finding.model_validate(content | {"tolerance": 9.0}).rule != one.rule


FAR, NEAR, WIDE = (0.90, 0.91, 0.92), (0.60, 0.61, 0.62), (0.20, 0.90, 0.10)
LOW = (0.40, 0.41, 0.42)


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        (FAR, LOW, "reproduced"),
        (NEAR, LOW, "direction only"),  # .2 instead of .5 ± .1
        (WIDE, (0.40, 0.01, 0.42), "inconclusive"),
        (LOW, NEAR, "not reproduced"),
        ((0.9,), (0.4,), "inconclusive"),  # no interval
        ((), (0.4, 0.5), "inconclusive"),
    ],
)
def test_a_difference_is_judged_by_welchs_test(a, b, verdict):
    found = judge(finding(), samples(a=a, b=b))
    (part,) = found.parts
    assert found.verdict == part.verdict == verdict
    if min(len(a), len(b)) > 1:
        expected = ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
        assert np.allclose([part.estimate - part.half_width, part.estimate + part.half_width], expected)
        assert part.p == pytest.approx(ttest_ind(a, b, equal_var=False, alternative="greater").pvalue)
        assert part.p_against == pytest.approx(ttest_ind(a, b, equal_var=False, alternative="less").pvalue)


@pytest.mark.parametrize(
    ("expect", "a", "b", "verdict"),
    [
        ({"same": ["a", "b"], "within": 0.1}, (0.50, 0.51, 0.52), (0.50, 0.52, 0.51), "direction only"),  # published: .5
        ({"same": ["a", "b"], "within": 0.1}, (0.50, 0.51, 0.52), FAR, "not reproduced"),
        ({"same": ["a", "b"], "within": 0.01}, (0.50, 0.51, 0.52), (0.50, 0.52, 0.51), "inconclusive"),
        ({"at_most": {"a": 0.1}}, (0.01, 0.02), (), "reproduced"),
        ({"at_most": {"a": 0.1}}, (0.01, 0.2), (), "not reproduced"),
        ({"more": ["b"], "than": 0.3}, (), (0.5, 0.51, 0.49), "direction only"),  # published: .4
        ({"more": 0.45, "than": ["b"]}, (), (0.5, 0.51, 0.49), "not reproduced"),
    ],
)
def test_other_expectations(expect, a, b, verdict):
    assert judge(finding(expect=[expect], tolerance=0.05), samples(a=a, b=b)).verdict == verdict


def test_the_whole_claim_is_one_test_and_a_part_refutes_it_after_holms_correction():
    """Nine true parts: one alone may be undecided or on the other side, their mean is not."""
    labels = [f"b{n}" for n in range(9)]
    one = finding(expect=[{"more": ["a"], "than": labels}], source=SOURCE.model_copy(update={"numbers": {}}))
    numbers = {"a": (0.6, 0.5, 0.7)} | {label: (0.3, 0.3, 0.31) for label in labels} | {"b0": (0.5, 0.6, 0.4)}
    found = judge(one, samples(**numbers))
    assert found.parts[0].verdict == "inconclusive" and found.verdict == "reproduced" and 0 < found.p < 0.025
    opposite = judge(one, samples(**numbers | {"b0": (0.7, 0.71, 0.72)}))
    assert opposite.verdict == "inconclusive", "one part is on the other side, and does not refute the claim"
    assert judge(one, samples(**numbers | {"a": (0.6, 0.61, 0.6), "b0": (0.7, 0.71, 0.7)})).verdict == "not reproduced"


def test_holm():
    """By hand: 3 · .01, then 2 · .02, then the largest so far."""
    assert holm([0.03, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.5, 0.4]) == pytest.approx([0.8, 0.8])


def test_seeds_that_succeed_are_counted_and_compared_exactly():
    numbers = samples(a=(0.99, 0.97, 0.98, 1.0, 0.2, 0.96), b=(0.0, 0.1, 0.99, 0.0, 0.1, 0.2))
    (part,) = judge(finding(success=0.95), numbers).parts
    assert part.p == pytest.approx(fisher_exact([[5, 1], [1, 5]], alternative="greater").pvalue) and part.half_width is None
    (part,) = judge(finding(success=0.95, expect=[{"more": ["a"], "than": 0.5}]), numbers).parts
    assert part.p == pytest.approx(sum(math.comb(6, k) for k in (5, 6)) / 2**6)
    (part,) = judge(finding(success=0.95, expect=[{"more": 0.5, "than": ["b"]}]), numbers).parts
    assert part.p == pytest.approx(sum(math.comb(6, k) for k in (0, 1)) / 2**6)


def test_a_setting_without_power_and_a_withdrawn_rule_are_not_judged():
    numbers = samples(a=FAR, b=LOW)
    outcome = Outcome(rule=finding().rule, samples=numbers, minutes=1, finished="2026-01-01", commit=None, versions={})
    planned = {"difference": 0.5, "spread": 0.1, "seeds": 5, "source": "seeds 100 to 104"}
    assert finding(planned=planned).planned.power > 0.99
    assert verdict_of(finding(), outcome).verdict == "reproduced"
    weak = verdict_of(finding(planned=planned | {"difference": 0.0, "spread": 0.0}), outcome)
    assert (weak.verdict, weak.why) == ("setting cannot test it", "power 0%: seeds 100 to 104")
    withdrawn = verdict_of(finding(withdrawn="unfair"), outcome)
    assert (withdrawn.verdict, withdrawn.why) == ("withdrawn", "unfair")
    assert verdict_of(finding(tolerance=0.2), outcome).verdict == STALE and verdict_of(finding(), None).verdict == NOT_RUN


def test_planned_power_is_the_share_of_simulated_tests_that_find_the_difference():
    draw = np.random.default_rng(0)
    planned = Planned(difference=1.0, spread=0.8, seeds=6, source="s")
    a, b = (draw.normal(mean, 0.8, (4000, 6)) for mean in (1, 0))
    share = (ttest_ind(a, b, axis=1, alternative="greater").pvalue < 0.025).mean()
    assert planned.power == pytest.approx(share, abs=0.02)


def test_guessing_is_taken_out():
    scores = [
        {"length": n, "exact": e, "token": e, "count": 10, "tokens": 10, "chance": 0.5, "token_chance": 0.2}
        for n, e in ((4, 1.0), (8, 0.75))
    ]
    run = SimpleNamespace(scores=[LengthScore(**score) for score in scores], train_length=4, path="p")
    assert Measure(score="exact", past=1, to=2).of_run(run) == 0.75
    assert Measure(score="exact", past=1, to=2, above_chance=True).of_run(run) == 0.5
    assert Measure(score="token", past=0, to=2, above_chance=True).of_run(run) == pytest.approx((1 + 0.55 / 0.8) / 2)


def test_contradictory_findings_are_refused():
    with pytest.raises(ValueError, match="expected `more` with `than`"):
        finding(expect=[{"more": ["a"]}])
    with pytest.raises(ValueError, match="expected `suites` with `measure` or `probes`, or `code` with `seeds`"):
        finding(code="")


def test_reproduce_runs_the_cheapest_two_and_reports_a_wrong_result(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # no checkout: the verdicts of others are those installed
    monkeypatch.setattr("bench.runs.devices.current_commit", lambda: "one")
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

    monkeypatch.setattr("bench.runs.devices.current_commit", lambda: "another")
    for module in (permutation_equivariance, positions_without_encoding):
        monkeypatch.setattr(module, "NoPE", get_encoding("alibi"))  # an order signal where there must be none
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
    assert (code, shown["verdict"]) == (0, "inconclusive")  # one seed
    assert shown["samples"].keys() == {"far/nope", "far/alibi", "alike/alibi"}  # nothing of nope's likeness to itself


def test_readings_choose_and_combine_values():
    values = [Value("error", 2.0, 4, 0), Value("error", 1.0, 4, 1), Value("error", 5.0, 8, 1), Value("chance", 4.0, 4)]
    record = ProbeRecord(
        probe="position", version=1, suite="s", suite_version=1, fingerprint="f", task="t", variant="v", train_length=4,
        encoding="e", seed=0, source_sha256="s", values=values, seconds=0.0,
    )  # fmt: skip

    def read(**content) -> float | None:
        return Reading.model_validate({"probe": "position", "quantity": "error"} | content).of([record, record])

    assert read(length="train") == 1.5 and read(length="train", layers=[1]) == 1 and read(length="longest") == 5
    assert read(length="train", layers=[0], over={"quantity": "chance", "length": "train"}) == 0.5
    assert read(length="longest", less={"quantity": "error", "length": "train"}) == 3.5
    assert read(layers=[7]) is None and read(less={"quantity": "other"}) is None
