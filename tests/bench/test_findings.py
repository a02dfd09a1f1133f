"""Published findings: files, numbers read from runs, verdicts, and the command."""

import json

import numpy as np
import pytest
from commands import printed, refused, run_command
from scipy.stats import ttest_ind

from bench.findings.finding import OUTCOMES, Finding, Outcome, Source, read_outcomes, shipped_findings
from bench.findings.reading import Reading
from bench.findings.verdict import NOT_RUN, STALE, holm, judge, verdict_of
from bench.probe.record import ProbeRecord, Value

OTHERS = ["rope", "sinusoidal", "learned", "t5", "alibi", "ntk", "yarn", "fire", "sandwich"]
NUMBERS = {"nope": 0.9, "rope": 0.4}
SOURCE = Source(paper="Somebody 2020, Title", link="https://example.org", where="table 1", setting="large", numbers=NUMBERS)


def finding(**changes) -> Finding:
    content = {
        "name": "one", "claim": "NoPE beats RoPE.", "source": SOURCE, "differences": ["small"], "minutes": 1.0,
        "suites": {"x": {"base": "quick", "encodings": ["nope", *OTHERS]}},
        "measure": {"score": "exact", "past": 1, "to": 2}, "unit": "accuracy",
        "expect": [{"more": ["nope"], "than": ["rope"]}], "tolerance": 0.1,
    }  # fmt: skip
    return Finding.model_validate(content | changes)


def samples(**values):
    return {label: dict(enumerate(numbers)) for label, numbers in values.items()}


def test_every_finding_is_valid_and_its_rule_ignores_what_was_tried():
    found = shipped_findings()
    assert len(found) > 5
    for one in found:
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
    found = judge(finding(), samples(nope=a, rope=b))
    (part,) = found.parts
    assert found.verdict == part.verdict == verdict
    if min(len(a), len(b)) > 1:
        expected = ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
        assert np.allclose([part.estimate - part.half_width, part.estimate + part.half_width], expected)
        assert part.p == pytest.approx(ttest_ind(a, b, equal_var=False, alternative="greater").pvalue)
        assert part.p_against == pytest.approx(ttest_ind(a, b, equal_var=False, alternative="less").pvalue)


@pytest.mark.parametrize(
    ("expect", "verdict"),
    [
        ({"more": ["rope"], "than": 0.3}, "direction only"),  # published: .4
        ({"more": 0.45, "than": ["rope"]}, "not reproduced"),
    ],
)
def test_a_mean_is_compared_with_a_number(expect, verdict):
    assert judge(finding(expect=[expect], tolerance=0.05), samples(rope=(0.5, 0.51, 0.49))).verdict == verdict


def test_the_whole_claim_is_one_test_and_a_part_refutes_it_after_holms_correction():
    """Nine true parts: one alone may be undecided or on the other side, their mean is not."""
    source = SOURCE.model_copy(update={"numbers": {}})
    one = finding(expect=[{"more": ["nope"], "than": OTHERS}], source=source)
    numbers = {"nope": (0.6, 0.5, 0.7)} | dict.fromkeys(OTHERS, (0.3, 0.3, 0.31)) | {"rope": (0.5, 0.6, 0.4)}
    found = judge(one, samples(**numbers))
    assert found.parts[0].verdict == "inconclusive" and found.verdict == "reproduced" and 0 < found.p < 0.025
    opposite = judge(one, samples(**numbers | {"rope": (0.7, 0.71, 0.72)}))
    assert opposite.verdict == "inconclusive", "one part is on the other side, and does not refute the claim"
    assert judge(one, samples(**numbers | {"nope": (0.6, 0.61, 0.6), "rope": (0.7, 0.71, 0.7)})).verdict == "not reproduced"


def test_holm():
    """By hand: 3 · .01, then 2 · .02, then the largest so far."""
    assert holm([0.03, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.5, 0.4]) == pytest.approx([0.8, 0.8])


def test_a_withdrawn_rule_and_an_outcome_of_another_rule_are_not_judged():
    numbers = samples(nope=FAR, rope=LOW)
    outcome = Outcome(rule=finding().rule, samples=numbers, minutes=1, finished="2026-01-01", commit=None, versions={})
    assert verdict_of(finding(), outcome).verdict == "reproduced"
    withdrawn = verdict_of(finding(withdrawn="unfair"), outcome)
    assert (withdrawn.verdict, withdrawn.why) == ("withdrawn", "unfair")
    assert verdict_of(finding(tolerance=0.2), outcome).verdict == STALE and verdict_of(finding(), None).verdict == NOT_RUN


def test_contradictory_findings_are_refused():
    for changes, message in (
        ({"expect": [{"more": ["nope"]}]}, "than"),
        ({"expect": [{"more": 0.5, "than": 0.4}]}, "expected a label in `more` or `than`"),
        ({"measure": None}, "expected `measure` or `probes`"),
        ({"expect": [{"more": ["nope"], "than": ["rop"]}]}, "did you mean 'rope'"),
    ):
        with pytest.raises(ValueError, match=message):
            finding(**changes)


def test_reproduce_reports_a_wrong_result_and_lists_all(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # no checkout: the verdicts of others are those installed
    suite = {
        "base": "quick", "encodings": ["nope"], "seeds": [0, 1], "recipe": {"steps": 2, "warmup_steps": 0},
        "model": {"layers": 1}, "tasks": [{"task": "sorting", "variant": "unique", "train_length": 4, "test_at": [1, 2]}],
    }  # fmt: skip
    source = SOURCE.model_copy(update={"numbers": {}})
    one = finding(suites={"x": suite}, source=source, expect=[{"more": ["nope"], "than": 0.9}])
    monkeypatch.setattr("bench.findings.finding.load_finding", lambda name: one)
    out = ("--out", tmp_path)
    assert "one: 1 minutes of one core, 2 runs, 0 done" in printed("reproduce", "one", "--dry-run", *out)
    code, text, _ = run_command("reproduce", "one", *out, "--workers", "1", "--json")
    (shown,) = json.loads(text)
    assert (code, shown["verdict"]) == (1, "not reproduced")
    assert read_outcomes(tmp_path / OUTCOMES)["one"].samples == {"nope": {0: 0.0, 1: 0.0}}
    monkeypatch.undo()
    listed = json.loads(printed("reproduce", *out, "--json"))
    assert [row["name"] for row in listed] == [one.name for one in shipped_findings()]
    assert "did you mean 'copying_past_l'" in refused("reproduce", "copying_past_", *out)


def test_a_finding_about_probes_is_trained_measured_and_judged(tmp_path, monkeypatch):
    suite = {
        "base": "quick", "encodings": ["nope", "alibi"], "seeds": [3], "recipe": {"steps": 2, "warmup_steps": 0},
        "model": {"layers": 1}, "tasks": [{"task": "sorting", "variant": "unique", "train_length": 4, "test_at": [1, 2]}],
    }  # fmt: skip
    probes = {
        "far": {"probe": "growth", "quantity": "largest_weight", "length": "longest"},
        "alike": {"probe": "similarity", "quantity": "divergence", "at": "nope seed {seed}"},
    }
    one = finding(
        suites={"x": suite}, probes=probes, measure=None, source=SOURCE.model_copy(update={"numbers": {}}),
        expect=[{"more": ["far/nope"], "than": ["far/alibi"]}, {"more": 1.0, "than": ["alike/nope"]}],
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
