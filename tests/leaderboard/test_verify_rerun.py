"""``lprime verify --rerun``: honest runs agree; edited ones do not; and the runs to repeat are chosen by chance."""

import hashlib
import re
from collections import Counter
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest
from scipy.stats import hypergeom
from submissions import (
    NAME,
    PERFECT,
    edit_each,
    edit_report,
    findings_of,
    make_submission_apart,
    make_suite,
    read_results,
    reseal,
)
from support import new_registry

from bench.check import check_encoding
from bench.check.checks import Fault
from bench.check.report import CheckOutcome, Report
from bench.plugins import registry
from bench.plugins.registry import get_encoding
from bench.result import Result, write_result
from bench.runs.run import Run
from bench.runs.run_one import run_one
from bench.sealed.request import SealedCode, SealedRequest
from leaderboard.submission.manifest import CHECK, SUBMISSION, Submission
from leaderboard.submission.verify import ALL, RerunOptions, rerun
from leaderboard.submission.verify.read_untrusted import Contents
from leaderboard.submission.verify.submission_checks import SubmissionData
from slurm import commands
from slurm.cluster import Cluster
from slurm.launch import plan_submissions
from slurm.records import Plan, Source

SUITE = make_suite(seeds=[0, 1, 2, 3, 4])


@pytest.fixture(scope="module")
def honest(tmp_path_factory) -> Path:
    """A submission with five seeds, in place of the one that other tests share."""
    return make_submission_apart(tmp_path_factory.mktemp("honest"), SUITE)


@pytest.fixture
def in_process(monkeypatch, tmp_path, fresh_registry):
    """Runs in this process rather than in others, which take ten seconds to start; and one check in place of all."""
    monkeypatch.setattr(rerun, "check_encoding", partial(check_encoding, only=["interface"]))

    def train_runs(data, suite, chosen, out):
        with new_registry(), TemporaryDirectory() as source:
            name = get_encoding(rerun.write_source(data, Path(source))[0]).info.name
            return [run_one(Run(suite, r.task, name, r.seed), tmp_path / f"rerun-{suite.test_seed}", "cpu") for r in chosen]

    monkeypatch.setattr(rerun, "train_runs", train_runs)


@pytest.fixture
def as_before(monkeypatch, honest):
    """In place of trainings, the results of the honest submission."""
    known = {(r.task, r.seed): r for r in read_results(honest)}
    report = Report.model_validate_json((honest / CHECK).read_text())
    monkeypatch.setattr(rerun, "check_encoding", lambda *_, **__: report)
    monkeypatch.setattr(rerun, "train_runs", lambda data, suite, chosen, out: [known[r.task, r.seed] for r in chosen])


def rerun_findings(folder: Path, **changes) -> dict[str, CheckOutcome]:
    return findings_of(folder, SUITE, options=RerunOptions(**{"rerun": 2, "fresh": True, "seed": 7} | changes))


def failures(findings: dict[str, CheckOutcome]) -> dict[str, str]:
    return {name: f.found for name, f in findings.items() if f.status != "passed"}


def make_perfect(run: dict) -> None:
    """Perfect scores, with a loss that falls accordingly, which no static check detects."""
    for score in run["scores"]:
        score.update(PERFECT)
    run["loss"] = [[step, loss / (1 + step * (1 + run["seed"] / 7))] for step, loss in run["loss"]]


def make_perfect_past_l(run: dict) -> None:
    for score in run["scores"]:
        if score["length"] > run["train_length"]:
            score.update(PERFECT)


# --- in separate processes


@pytest.mark.sandbox
def test_an_honest_submission_agrees_bit_for_bit(folder, monkeypatch, tmp_path, fresh_registry):
    monkeypatch.setattr(rerun, "check_encoding", partial(check_encoding, only=["interface"]))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    messages = []
    findings = rerun_findings(folder, rerun=1, fresh=False, workers=1, say=messages.append, out=tmp_path / "runs")
    assert failures(findings) == {}
    (found,) = (Result.model_validate_json(path.read_text()) for path in (tmp_path / "runs").rglob("result.json"))
    assert found.sealed and found.threads == 1 and found.path.startswith(f"tiny/{found.task}/{NAME}/")
    assert re.fullmatch(r"(copying|parity) seed \d: 1 bit for bit; 1 of 10 runs, choice seed 7; had 2 been edited, 80% of such "
                        r"choices would miss all", findings["rerun"].found)  # fmt: skip
    assert messages[1].startswith("training ")
    assert not registry.loaded.plugins, "this process has loaded nothing"


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("line", "message", "limit"),
    [("raise OSError('no')", "OSError: no", 60), ("while True: pass", "still running after 2 s, the limit", 2)],
)
def test_source_that_fails_or_hangs(honest, tmp_path, line, message, limit):
    source = (honest / f"source/{NAME}.py").read_text().replace("class MyEncoding", f"{line}\nclass MyEncoding")
    submission = Submission.model_validate_json((honest / SUBMISSION).read_text())
    contents, options = Contents({f"source/{NAME}.py": source.encode()}), RerunOptions(1, False, 0, 1, limit)
    data = SubmissionData(NAME, contents, SUITE, rerun=options, parsed={"submission": submission})
    with pytest.raises(Fault, match=f"copying {NAME} seed 0: no result: .*{message}"):
        rerun.train_runs(data, SUITE, read_results(honest)[:1], tmp_path)


# --- edits that no static check detects


def test_edited_losses_and_scores_are_detected(folder, as_before):
    edit_each(folder, make_perfect)
    failed = failures(rerun_findings(folder, fresh=False))
    assert list(failed) == ["rerun"]
    assert "differs in loss, scores (exact match 1.000 and 1.000 submitted, exact match 0." in failed["rerun"]
    assert "though device and versions are the same" in failed["rerun"]


def test_edited_scores_are_detected(folder, as_before):
    edit_each(folder, make_perfect_past_l)
    failed = failures(rerun_findings(folder, fresh=False))
    assert list(failed) == ["rerun"]
    assert "differs in scores (" in failed["rerun"]


@pytest.mark.sandbox
def test_an_honest_submission_passes(folder, in_process):
    findings = rerun_findings(folder)
    assert failures(findings) == {}
    assert "2 bit for bit" in findings["rerun"].found
    assert "no significant difference in 8 tests; test seed " in findings["fresh tests"].found


def move_elsewhere(run: dict) -> None:
    """Runs as from another machine: another device, and other rounding."""
    run["device"] = "cpu (another one)"
    run["loss"] = [[step, loss * (1 + 1e-5 * step)] for step, loss in run["loss"]]


def test_results_of_another_machine_are_compared_by_one_test(folder, as_before):
    edit_each(folder, move_elsewhere)
    findings = rerun_findings(folder, rerun=ALL, fresh=False)
    assert failures(findings) == {}
    assert "0 bit for bit, 10 by the test: no significant difference (p = 1, by signs of 10 differ" in findings["rerun"].found

    edit_each(folder, make_perfect_past_l)
    failed = failures(rerun_findings(folder, rerun=ALL, fresh=False))
    assert re.search(
        r"^the 10 runs together differ: mean exact match 1\.000 past L submitted; .* 0\.\d+ past L found", failed["rerun"]
    )
    edit_each(folder, lambda run: run.update(loss=[[step, loss * 1.01] for step, loss in run["loss"]]))
    failed = failures(rerun_findings(folder, rerun=1, fresh=False))
    assert "is not a run of this code with this seed: its first logged loss is" in failed["rerun"]


def test_memorised_test_sets_are_detected_on_new_examples(folder, as_before, monkeypatch):
    """Runs that are perfect on the published examples, here too, and not on others."""
    train = rerun.train_runs

    def perfect(run: Result) -> Result:
        scores = [s.model_copy(update=PERFECT) for s in run.scores]
        return run.model_copy(update={"scores": scores})

    def train_runs(data, suite, chosen, out):
        found = train(data, suite, chosen, out)
        return [perfect(run) for run in found] if suite.test_seed == SUITE.test_seed else found

    monkeypatch.setattr(rerun, "train_runs", train_runs)
    failed = failures(rerun_findings(folder, rerun=0))
    assert re.search(r"length 8: 1\.000 submitted, 0\.\d+ found", failed["fresh tests"])


def test_results_that_were_not_sealed_are_not_taken(honest, tmp_path):
    submission = Submission.model_validate_json((honest / SUBMISSION).read_text())
    options = RerunOptions(ALL, False, 0, out=tmp_path)
    data = SubmissionData(NAME, Contents({}), SUITE, rerun=options, parsed={"submission": submission})
    claimed = read_results(honest)[0]
    for other, message in (
        (claimed, "has a result that is not of a sealed run"),
        (claimed.model_copy(update={"sealed": True, "encoding": claimed.encoding.model_copy(update={"source_sha256": "0"})}),
         "has a result of other source"),
    ):  # fmt: skip
        write_result(tmp_path / claimed.path, other)
        with pytest.raises(Fault, match=message):
            rerun.train_runs(data, SUITE, [claimed], tmp_path)
    sealed = claimed.model_copy(update={"sealed": True})
    write_result(tmp_path / claimed.path, sealed)
    assert rerun.train_runs(data, SUITE, [claimed], tmp_path) == [sealed], "a finished run is not repeated"


def test_compute_nodes_get_sealed_code_and_nothing_is_loaded(honest, tmp_path, monkeypatch):
    monkeypatch.setattr(commands, "job_limits", lambda cluster: (1000, None))
    code = SealedCode(folder="/shared/source", reference="/shared/source/a.py:A", path=[], seconds=60,
                      encoding=read_results(honest)[0].encoding)  # fmt: skip
    cluster, run = Cluster(partition="main", time_minutes=60), Run(SUITE, "copying", NAME, 0)
    sources = {NAME: Source(plugins=[], sha256=code.encoding.source_sha256, sealed=code)}
    (plan,), _ = plan_submissions([run], tmp_path, cluster, 0, sources=sources)
    request = Plan.model_validate_json(plan.model_dump_json()).request(run)
    assert isinstance(request, SealedRequest) and (request.code, request.run()) == (code, run)


@pytest.mark.sandbox
def test_a_forged_check_report_is_detected_by_checking_again(folder, monkeypatch, in_process):
    source = (folder / f"source/{NAME}.py").read_text().replace("at.distances", "at.distances.div(at.layer - at.layer)")
    (folder / f"source/{NAME}.py").write_text(source)
    digest = hashlib.sha256(source.encode()).hexdigest()
    edit_report(folder, lambda report: report.update(source_sha256=digest))
    edit_each(folder, lambda run: run["encoding"].update(source_sha256=digest))
    reseal(folder, lambda content: content.update(source_sha256=digest))
    failed = failures(rerun_findings(folder))
    assert next(iter(failed)) == "check again"
    assert failed["check again"].startswith("my_encoding.py, line ") and "`bias` returns NaN" in failed["check again"]


def test_no_code_runs_if_a_check_of_its_data_fails(folder, monkeypatch):
    monkeypatch.setattr(rerun, "check_encoding", lambda *_, **__: pytest.fail("ran"))
    monkeypatch.setattr(rerun, "train_runs", lambda *_: pytest.fail("ran"))
    reseal(folder, lambda content: content.update(title="<b>"))
    findings = rerun_findings(folder)
    last = [findings[name] for name in ("check again", "rerun", "fresh tests")]
    assert [(f.status, f.found) for f in last] == [("not run", "a check of its data failed, so its code is not run")] * 3


@pytest.mark.parametrize("name", ["decay(decay=0.5)", "randomised(decay)", "decay(decay(rope,decay=2))", "decay(word='decay')"])
def test_the_reference_to_the_source_replaces_encodings_and_no_settings(name, tmp_path):
    plugin = SimpleNamespace(name="decay", file="decay.py", cls="Decay")
    data = SimpleNamespace(submission=SimpleNamespace(name=name, plugin=plugin), contents=Contents())
    reference = rerun.write_source(data, tmp_path)[0]
    path = f"{tmp_path}/decay.py:Decay"
    assert reference == name.replace("decay)", f"{path})").replace("decay(", f"{path}(")


# --- the choice


def test_the_choice_is_uniform_and_depends_only_on_its_seed(honest):
    runs = read_results(honest)
    assert RerunOptions(3, False, 5).choose(runs) == RerunOptions(3, False, 5).choose(runs)
    counts = Counter(str((r.task, r.seed)) for n in range(600) for r in RerunOptions(2, False, n).choose(runs))
    assert len(counts) == 10 and min(counts.values()) > 80 and sum(counts.values()) == 1200
    assert len(RerunOptions(100, False, 0).choose(runs)) == 10
    for seed in range(20):
        assert [run.task for run in RerunOptions(0, True, seed).choose(runs)] == ["copying", "parity"], "one per task"
    assert RerunOptions(1, True, 0).test_seed != RerunOptions(1, True, 1).test_seed != SUITE.test_seed


@pytest.mark.parametrize(("runs", "chosen"), [(10, 3), (25, 5), (2, 1)])
def test_miss_chance_is_hypergeometric(runs, chosen):
    edited = -(-runs // 5)
    percent = int(re.search(r"(\d+)% of such", rerun.describe_miss_chance(runs, chosen, 0))[1])
    assert percent / 100 == pytest.approx(hypergeom.pmf(0, runs, edited, chosen), abs=0.0051)
