"""Published findings: files, numbers read from runs, verdicts, and the command."""

import json
import math

import numpy as np
import pytest
from commands import printed, refused, run_command
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_rel
from synthetic_results import result
from synthetic_results import suite as synthetic_suite

from bench.findings.finding import OUTCOMES, Expectation, Finding, Outcome, Source, shipped_findings
from bench.findings.reading import Measure, Reading
from bench.findings.verdict import CANNOT, NOT_RUN, STALE, holm, judge, verdict_of
from bench.probe.record import ProbeRecord, Value
from bench.result import Result, read_records
from tasks import InputError

OTHERS = ["rope", "sinusoidal", "learned", "t5", "alibi", "ntk", "yarn", "fire", "sandwich"]
NUMBERS = {"nope": 0.9, "rope": 0.4}
SOURCE = Source(paper="Somebody 2020, Title", link="https://example.org", where="table 1", setting="large", numbers=NUMBERS)
SUITE = synthetic_suite()
NOTHING = SOURCE.model_copy(update={"numbers": {}})


def finding(**changes) -> Finding:
    content = {
        "name": "one", "claim": "NoPE beats RoPE.", "source": SOURCE, "differences": ["small"], "minutes": 1.0,
        "suites": {"x": {"base": "quick", "encodings": ["nope", *OTHERS]}},
        "measures": {"m": {"score": "exact", "past": 1, "to": 2}}, "unit": "accuracy",
        "expect": [{"more": ["nope"], "than": ["rope"]}], "tolerance": 0.1,
    }  # fmt: skip
    return Finding.model_validate(content | changes)


def samples(**values):
    return {label: dict(enumerate(numbers)) for label, numbers in values.items()}


def test_every_finding_is_valid_and_its_rule_ignores_what_was_tried():
    found = shipped_findings()
    assert len(found) >= 20
    for one in found:
        content = one.model_dump(exclude_unset=True)
        changes = {"tried": "more", "minutes": 99.0, "why_not": "too small a model"}
        assert Finding.model_validate(content | changes).rule == one.rule
        assert Finding.model_validate(content | {"tolerance": 9.0}).rule != one.rule


def planned_power(finding: Finding, draws: int = 200) -> float:
    """Probability of a significant result, by drawing numbers as the plan says.

    Numbers vary normally, as the earlier runs do. Outcomes of 0 and 1 have the probability of the truth, but at least as far
    from 0 and 1 as half a seed among the earlier ones.
    """
    plan, random = finding.plan, np.random.default_rng(0)
    seeds = max((suite.seeds for suite in finding.grids.values()), key=len)
    truth = {label: np.mean(own) for label, own in plan.numbers.items()} | finding.source.published | plan.truth
    edge = {label: 0.5 / (len(plan.numbers.get(label, ())) + 1) for label in truth}
    spread = {label: np.std(own, ddof=1) for label, own in plan.numbers.items() if len(own) > 1}
    found = 0
    for _ in range(draws):
        drawn = {}
        for label, mean in truth.items():
            if finding.exact:
                row = random.random(len(seeds)) < min(max(mean, edge[label]), 1 - edge[label])
            else:
                row = random.normal(mean, spread.get(label, plan.spread), len(seeds))
            drawn[label] = dict(zip(seeds, map(float, row), strict=True))
        found += judge(finding, drawn).verdict in ("reproduced", "direction only")
    return found / draws


@pytest.mark.parametrize("one", [one for one in shipped_findings() if one.plan], ids=lambda one: one.name)
def test_the_stated_power_is_the_plan_s(one):
    assert planned_power(one) == pytest.approx(one.plan.power, abs=0.06), "the power in the file is not the one of its numbers"


FAR, NEAR, WIDE = (0.90, 0.91, 0.92), (0.60, 0.61, 0.62), (0.20, 0.90, 0.10)
LOW = (0.40, 0.41, 0.43)


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
def test_a_difference_is_judged_by_the_paired_t_test(a, b, verdict):
    found = judge(finding(), samples(nope=a, rope=b))
    (part,) = found.parts
    assert found.verdict == part.verdict == verdict and found.whole == part
    if min(len(a), len(b)) > 1:
        expected = ttest_rel(a, b).confidence_interval(0.95)
        assert np.allclose([part.estimate - part.half_width, part.estimate + part.half_width], expected)
        assert part.p == pytest.approx(ttest_rel(a, b, alternative="greater").pvalue)
        assert part.p_against == pytest.approx(ttest_rel(a, b, alternative="less").pvalue)


@given(st.integers(0, 12), st.integers(0, 12))
def test_outcomes_of_0_and_1_are_judged_exactly(a, b):
    """Fisher's test by counting: the chance of as many solved seeds in the first group, the total being given."""
    seeds = [0.0] * 12
    measures = {"m": {"score": "exact", "past": 1, "to": 2, "solved": 0.9}}
    suites = {"x": {"base": "quick", "encodings": ["nope", *OTHERS], "seeds": [*range(12)]}}
    one = finding(measures=measures, suites=suites, source=NOTHING)
    rows = samples(nope=[1.0] * a + seeds[a:], rope=[1.0] * b + seeds[b:])
    ways = [math.comb(12, k) * math.comb(12, a + b - k) for k in range(a + b + 1)]
    found = judge(one, rows)
    assert found.whole.p == pytest.approx(sum(ways[a:]) / sum(ways)) and found.whole.half_width is None
    assert (found.verdict == "reproduced") == (found.whole.p <= 0.025) and (found.verdict == "not reproduced") == (
        found.whole.p_against <= 0.025
    )
    bound = judge(one.model_copy(update={"expect": [Expectation(more=["nope"], than=0.5)]}), rows).whole
    assert bound.p == pytest.approx(sum(math.comb(12, k) for k in range(a, 13)) / 2**12)
    with pytest.raises(ValueError, match="at least 10 seeds"):
        finding(measures=measures)


@pytest.mark.parametrize(
    ("expect", "verdict"),
    [
        ({"more": ["rope"], "than": 0.3}, "direction only"),  # published: .4
        ({"more": 0.45, "than": ["rope"]}, "not reproduced"),
        ({"more": ["nope"], "than": ["rope"], "by": 0.3}, "direction only"),  # .2, with an interval that excludes .3
    ],
)
def test_a_mean_is_compared_with_a_number_and_a_difference_with_the_smallest_that_counts(expect, verdict):
    rows = samples(rope=(0.5, 0.51, 0.49), nope=(0.7, 0.71, 0.69))
    source = NOTHING if "by" in expect else SOURCE
    assert judge(finding(expect=[expect], tolerance=0.05, source=source), rows).verdict == verdict


def test_the_whole_claim_is_one_test_and_a_part_refutes_it_after_holms_correction():
    """Nine true parts: one alone may be undecided or on the other side, their mean is not."""
    one = finding(expect=[{"more": ["nope"], "than": OTHERS}], source=NOTHING)
    numbers = {"nope": (0.6, 0.5, 0.7)} | dict.fromkeys(OTHERS, (0.3, 0.3, 0.31)) | {"rope": (0.5, 0.6, 0.4)}
    found = judge(one, samples(**numbers))
    assert found.parts[0].verdict == "inconclusive" and found.verdict == "reproduced" and 0 < found.whole.p < 0.025
    opposite = judge(one, samples(**numbers | {"rope": (0.7, 0.8, 0.72)}))
    assert opposite.verdict == "inconclusive", "one part is on the other side, and does not refute the claim"
    assert judge(one, samples(**numbers | {"nope": (0.6, 0.61, 0.6), "rope": (0.7, 0.71, 0.701)})).verdict == "not reproduced"


def test_holm():
    """By hand: 3 · .01, then 2 · .02, then the largest so far."""
    assert holm([0.03, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.5, 0.4]) == pytest.approx([0.8, 0.8])


def test_what_cannot_be_tested_needs_no_run_and_other_rules_are_not_judged():
    numbers = samples(nope=FAR, rope=LOW)
    outcome = Outcome(rule=finding().rule, samples=numbers, minutes=1, finished="2026-01-01", commit=None, versions={})
    assert verdict_of(finding(), outcome).verdict == "reproduced"
    assert verdict_of(finding(tolerance=0.2), outcome).verdict == STALE and verdict_of(finding(), None).verdict == NOT_RUN
    for plan, why in (
        ({"power": 0.5}, "planned power 50%"),
        ({"numbers": {"nope": [0.01, 0.04]}}, "all earlier runs guess"),
        ({"numbers": {"nope": [0.01, 0.06]}}, ""),
    ):
        one = finding(plan={"of": "seed 100", "numbers": {}, "power": 0.9} | plan)
        assert verdict_of(one, None).verdict == (CANNOT if why else NOT_RUN) and (not why or verdict_of(one, None).why == why)
        own = outcome.model_copy(update={"rule": one.rule})
        assert verdict_of(one, own).verdict == "reproduced", "a significant result stands"
        undecided = own.model_copy(update={"samples": samples(nope=WIDE, rope=(0.4, 0.01, 0.42))})
        assert verdict_of(one, undecided).verdict == (CANNOT if why else "inconclusive")


def test_contradictory_findings_are_refused():
    for changes, message in (
        ({"expect": [{"more": ["nope"]}]}, "than"),
        ({"expect": [{"more": 0.5, "than": 0.4}]}, "expected a label in `more` or `than`"),
        ({"measures": {}}, "measures"),
        ({"expect": [{"more": ["nope"], "than": ["rop"]}]}, "did you mean 'rope'"),
        ({"best": {"any": ["nope", "rop"]}}, "did you mean 'rope'"),
        ({"why_not": "one two three four five six seven eight nine"}, "why_not"),
        ({"suites": {"x": {"base": "small", "encodings": ["nope", *OTHERS]}}}, "expected one of the learning rates"),
    ):
        with pytest.raises(ValueError, match=message):
            finding(**changes)


def of_parity(past: float, seed: int = 0, name: str = "nope", within: float = 1.0) -> Result:
    """A result of parity, L 4, where guessing is right in half of the cases, with a loss of l/L nats."""
    made = result(SUITE, "parity", name, seed, (within, within, past, past))
    own = [s.model_copy(update={"nll": s.length / made.train_length}) for s in made.scores]
    return made.model_copy(update={"scores": own, "further": {"other": [s.model_copy(update={"nll": 2 * s.nll}) for s in own]}})


def test_measures_take_guessing_out_on_both_sides_and_follow_the_authors_selection():
    def read(*results: Result, **content) -> float | None:
        return Measure.model_validate({"score": "exact", "past": 1, "to": 2} | content).of(results)

    assert read(of_parity(0.75)) == 0.5 and read(of_parity(0.5)) == 0 and read(of_parity(0.75, within=0.7), learned=0.8) is None
    assert SOURCE.model_copy(update={"chance": 0.5}).published == pytest.approx({"nope": 0.8, "rope": -0.2})
    assert (read(of_parity(0.95), solved=0.89), read(of_parity(0.95), solved=0.91)) == (1.0, 0.0)
    bits = {"score": "bits", "past": 1.9, "to": 2}
    assert read(of_parity(1), **bits) == pytest.approx(2 / math.log(2))
    assert read(of_parity(1), **bits, further="other", minus={"past": 0.9, "to": 1}) == pytest.approx(3 / math.log(2))
    with pytest.raises(InputError, match="no test length l with 7 < l/L ≤ 8"):
        read(of_parity(1), past=7, to=8)


def test_the_best_of_a_kind_is_chosen_by_other_seeds():
    suites = {"x": {"base": "quick", "encodings": ["nope", "rope"], "seeds": [0, 1, 2]}}
    one = finding(suites=suites, tasks=["parity"], best={"any": ["nope", "rope"]}, expect=[{"more": ["any"], "than": 0.1}])
    found = [of_parity(0.5 + x / 2, seed, name) for name, row in (("nope", LOW), ("rope", WIDE)) for seed, x in enumerate(row)]
    chosen = one.samples({"x": found})["any"]
    assert chosen == pytest.approx({0: 0.2, 1: 0.41, 2: 0.1}), "rope but for seed 1, on which alone it is better"


def test_reproduce_reports_a_wrong_result_and_lists_all(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # no checkout: the verdicts of others are those installed
    suite = {
        "base": "quick", "encodings": ["nope"], "seeds": [0, 1], "recipe": {"steps": 2, "warmup_steps": 0},
        "model": {"layers": 1}, "tasks": [{"task": "sorting", "variant": "unique", "train_length": 4, "test_at": [1, 2]}],
    }  # fmt: skip
    one = finding(suites={"x": suite}, source=NOTHING, expect=[{"more": ["nope"], "than": 0.9}])
    monkeypatch.setattr("bench.findings.finding.load_finding", lambda name: one)
    out = ("--out", tmp_path)
    assert "one: 1 minutes of one core, no plan, 2 runs, 0 done" in printed("reproduce", "one", "--dry-run", *out)
    assert json.loads(printed("reproduce", "one", "--dry-run", "--json", *out))[0]["runs"] == 2
    code, text, _ = run_command("reproduce", "one", *out, "--workers", "1", "--json")
    (shown,) = json.loads(text)
    assert (code, shown["verdict"]) == (1, "not reproduced")
    assert read_records(tmp_path / OUTCOMES, Outcome)["one"].samples["nope"] == pytest.approx({0: 0, 1: 0}, abs=1e-4)
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
        suites={"x": suite}, measures=probes, source=NOTHING,
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
