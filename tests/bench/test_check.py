"""``lprime check``: each cheat is caught by the check it belongs to, honest encodings pass, and the report is complete."""

import json
import subprocess
import sys
from functools import cache

import pytest
import torch
from markdown_it import MarkdownIt
from support import ROOT, suite_dict

import bench.check.run_checks
import bench.training.evaluate
from bench.check import Finding, Report, check_encoding, hook_contract
from bench.check.checks import Fault, load_checks
from bench.check.side_effects import recorded_events
from bench.check.statefulness import output_sample
from bench.check.subject import Subject
from bench.plugins.registry import get_encoding
from bench.suites.suite import Suite, validated
from lprime.cli import main
from tasks import InputError

torch.set_num_threads(1)

CHEATS = ROOT / "tests/plugins/cheats"
CHECKS = {check.name: check for check in load_checks()}
TINY = validated(Suite, suite_dict(model={"layers": 3}, tasks=[
    {"task": "copying", "variant": "repeat", "train_length": 4},
    {"task": "addition", "variant": "reversed", "train_length": 2},
]), "tiny")  # fmt: skip
DEEP = validated(Suite, suite_dict(name="deep", model={"layers": 4}), "deep")
"""A model with another number of layers, as the shipped suites have."""


pytestmark = pytest.mark.usefixtures("fresh_registry")


@cache
def reference(name: str) -> str:
    """Of a cheat, by its class; other names are built in."""
    files = [path for path in CHEATS.glob("*.py") if f"class {name}(" in path.read_text()]
    return f"{files[0]}:{name}" if files else name


def make_subject(name: str, **more) -> Subject:
    """A cheat or a built-in encoding, on small suites."""
    harness = hook_contract.harness_functions()
    return Subject(get_encoding(reference(name)), suite=TINY, other_suites=[DEEP], harness=harness, **more)


def fault_of(check: str, subject: Subject) -> str:
    with pytest.raises(Fault) as caught:
        CHECKS[check].run(subject)
    return str(caught.value)


CAUGHT = [
    ("causality", "PeeksThroughTheBias", "first in layer 0 of 0 … 2"),
    ("causality", "PeeksThroughTheEmbedding", "in training, 11 tokens (L is 11), copying"),
    ("causality", "PeeksInEvaluation", "in evaluation, 11 tokens"),
    ("causality", "PeeksInInference", "in evaluation, 11 tokens"),
    ("causality", "PeeksUnderAutocast", "in training, 19 tokens"),
    ("causality", "PeeksPastL", "in training, 19 tokens (L is 11)"),
    ("causality", "PeeksInLongSequences", "in training, 19 tokens (L is 11)"),
    ("causality", "PeeksAtOneLength", "in evaluation, 14 tokens (L is 11)"),
    ("causality", "PeeksAtOnePosition", "the output at position 5 changes with tokens after 5"),
    ("causality", "PeeksInTheLastLayer", "first in layer 2 of 0 … 2"),
    ("causality", "PeeksInAFourthLayer", "first in layer 3 of 0 … 3"),
    ("causality", "PeeksOnceTrained", "the output at position 0 changes with tokens after 0"),
    ("causality", "UsesNextTokens", "changes with tokens after"),
    ("cutting", "ScalesByTheTensor", "the output at position 1 changes when the sequence is cut after 2 tokens"),
    ("batches", "AveragesTheBatch", "the output of a row changes with the content of other rows"),
    ("memory", "KeepsAnAverage", "the same batch gives another output in turn"),
    ("memory", "KeepsInAGlobal", "passes change global SEEN of state.py"),
    ("memory", "KeepsInAnotherModule", "passes change global KEPT of cheat_store.py"),
    ("memory", "Counts", "passes change class attribute Counts.calls"),
    ("memory", "KeepsTokens", "passes change attribute kept of KeepsTokens"),
    ("determinism", "DependsOnAnAddress", "two models of the same seed give different outputs"),
    ("randomness", "DrawsElsewhere", "draws from a global generator"),
    ("randomness", "DrawsUndeclared", "but info says random=False"),
    ("randomness", "DrawsNothing", "but info says random=True"),
    ("state dict", "HidesATable", "the encoding keeps numbers outside its state dict"),
    ("tokens", "SolvesParity", "`positions` gives other ids for other tokens"),
    ("tokens", "SolvesRealPrompts", "`positions` gives other ids for other tokens"),
    ("tokens", "SolvesInInference", "`positions` gives other ids for other tokens"),
    ("tokens", "UsesNextTokens", "computes with the tokens it is given (roll)"),
    ("tokens", "KeepsTokens", "computes with the tokens it is given (cumsum)"),
    ("tokens", "UsesRoles", "depends on setup.roles"),
    ("tokens", "UsesSymbols", "depends on setup.symbols"),
    ("surroundings", "ReadsTheEnvironment", "in a pass of training: os.environ CHEAT"),
    ("surroundings", "ReadsAFile", "in a pass of training: o"),
    ("surroundings", "ReadsWhenMade", "when it is constructed: os.listdir"),
    ("surroundings", "CallsTheNetwork", "socket.__new__"),
    ("surroundings", "ReadsFrames", "sys._getframe"),
    ("mutation", "WritesIntoTheStream", "`embed` writes into tokens or x"),
    ("mutation", "WritesIntoTheKeys", "`bias` writes into k"),
    ("mutation", "WritesInInference", "in evaluation: `attend` writes into v"),
    ("mutation", "ChangesItsWeights", "in training: a pass changes the model's encoding.scale"),
    ("mutation", "ChangesTheModel", "a pass changes the model's embedding.weight"),
    ("learning", "ChangesItsWeights", "a pass changes the model's encoding.scale"),
    ("learning", "ChangesTheOptimizer", "a pass changes the optimizer's state"),
    ("learning", "IgnoresItsInput", "in 200 steps; 1.8"),
    ("declaration", "DeclaresNothing", "title is not one line of text: ''; link does not begin with https://"),
    ("declaration", "HasPositionalSettings", "argument base of __init__ is not keyword-only"),
    ("declaration", "HasAStage", "its ranking is not 'longer'"),
    ("interface", "GivesInfinity", "`bias` returns infinity"),
    ("interface", "GivesAnotherShape", "`bias` returns [1, 2] of torch.float32; expected None or numbers broadcastable"),
    ("devices", "ForgetsTheDevice", "device"),
    ("positions", "DeclaresShifts", "changes outputs, but info says shift_invariant=True"),
    ("positions", "DeclaresNoShifts", "changes nothing, but info says shift_invariant=False"),
    ("positions", "DeclaresFractions", "fractional position ids raise IndexError"),
    ("numbers", "Overflows", "19 tokens announced as 19: outputs are not finite, first at position"),
    ("numbers", "RoundsPositions", "bf16 autocast changes outputs at L′ by"),
    ("gradients", "HasAnUnusedParameter", "no gradient reaches encoding.unused"),
    ("cost", "HasTooManyParameters", "1,000,000 parameters, more than the model's"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "name", "message"), CAUGHT, ids=[f"{c}-{n}" for c, n, _ in CAUGHT])
def test_cheats_are_caught(check, name, message):
    assert message in fault_of(check, make_subject(name))


def test_a_plugin_must_not_replace_the_harness(monkeypatch):
    monkeypatch.setattr(
        bench.training.evaluate, "score_targets", bench.training.evaluate.score_targets
    )  # restored after the test
    assert "replaces bench.training.evaluate.score_targets" in fault_of("mutation", make_subject("ReplacesTheHarness"))


def test_another_process_must_give_the_same_outputs():
    numbers = output_sample(make_subject("rope"))
    same = make_subject("rope", sample_elsewhere=lambda: numbers)
    assert CHECKS["determinism"].run(same) == "equal twice in one process, and in another process"
    for others in ([n + 0.1 for n in numbers], []):
        subject = make_subject("rope", sample_elsewhere=lambda others=others: others)
        assert "another process" in fault_of("determinism", subject)


def test_every_check_has_a_cheat():
    assert {check for check, _, _ in CAUGHT} == CHECKS.keys()


# One of each kind of hook, state, ranking and draw.
HONEST = [
    "nope", "alibi_learned", "learned_offset", "sinusoidal_every_layer", "randomised(t5)", "interpolated(rope)",
    "finetuned(yarn)", "abacus", "position_coupling", "fox", "path", "DeclaresTaskAware",
]  # fmt: skip


@pytest.mark.parametrize("name", HONEST)
def test_honest_encodings_pass(name):
    subject = make_subject(name)
    for check in CHECKS.values():
        if check.name not in ("cost", "learning"):
            assert check.run(subject)


def test_learning_ignores_losses_of_a_further_stage():
    assert "the loss went from" in CHECKS["learning"].run(make_subject("finetuned(rope)"))


# --- in a process of its own


def run_to_death(name: str, **limits) -> Finding:
    """The finding for a plugin that ends its process."""
    report = check_encoding(reference(name), only=["interface", "positions"], **limits)
    first, second = report.findings
    assert not report.passed
    assert (first.check, first.status, second.status) == ("interface", "failed", "not run")
    return first


@pytest.mark.parametrize(
    ("name", "limits", "message"),
    [
        ("Hangs", {"time_limit_s": 1}, "still running after 1 s, the limit for all checks together"),
        ("Hoards", {"memory_limit_gb": 1}, "took more than 1 GiB of memory, the limit"),
        ("Dies", {}, "its process died (signal SIGABRT)"),
    ],
)
def test_a_process_that_exceeds_its_limits_or_dies_fails_the_check(name, limits, message):
    assert run_to_death(name, **limits).found.startswith(message)


def test_the_system_limits_memory_without_a_supervisor():
    code = "from bench.check.child_process import set_resource_limits; set_resource_limits(30, -1.7); bytearray(2**29)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "MemoryError" in ended.stderr


def test_a_plugin_that_hangs_on_import_is_bad_input(tmp_path, monkeypatch):
    monkeypatch.setattr(bench.check.run_checks, "LOAD_LIMIT_S", 2)
    (tmp_path / "slow.py").write_text("while True: pass")
    with pytest.raises(InputError, match=r"slow.py cannot be checked: not loaded after 2 s"):
        check_encoding(str(tmp_path / "slow.py"))


READS_ON_IMPORT = """
import os, urllib.request  # libraries may read files while they are imported
from pathlib import Path
from bench.encodings import Encoding, Info
SIZE = len(Path(__file__).with_name("table.bin").read_bytes()) + len(os.environ.get("TABLE", ""))
class Table(Encoding):
    info = Info("table", "none", "t", "a", 2026, "https://a.org", formula="f", past="p", provenance="o", shift_invariant=True)
    def embed(self, x, at):
        print("noise")
        if x.requires_grad:
            raise RuntimeError("it <broke>")
        return x
"""


def test_accesses_on_import_are_found(tmp_path):
    (tmp_path / "table.py").write_text(READS_ON_IMPORT)
    (tmp_path / "table.bin").write_bytes(b"12345")
    with recorded_events() as events:
        cls = get_encoding(str(tmp_path / "table.py"))
    found = fault_of("surroundings", Subject(cls, TINY, [], import_events=events))
    assert "on import: open" in found and "table.bin" in found
    assert "os.environ TABLE" in found and "urllib" not in found


def test_the_command_stops_at_an_error_and_reports_as_json_and_markdown(tmp_path, monkeypatch, capsys):
    """The error is one that only training raises; ``tests/cli/test_mistakes.py`` has those that the first call raises."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.py").write_text(READS_ON_IMPORT)
    (tmp_path / "table.bin").write_bytes(b"12345")
    code, printed, err = command(capsys, "check", "table.py", "--json", "--markdown", "report.md")
    assert code == 1, err
    report = Report.model_validate_json(printed)
    assert [f.check for f in report.findings] == list(CHECKS)
    assert report.encoding == "table" and not report.passed
    statuses = {f.check: f.status for f in report.findings}
    assert list(statuses.values()) == ["passed"] * 2 + ["failed"] + ["not run"] * (len(CHECKS) - 3)
    failed = report.findings[2]
    assert (failed.check, failed.found) == ("devices", "table.py, line 11: RuntimeError: it <broke>")
    assert failed.advice.startswith("correct that line")
    text = (tmp_path / "report.md").read_text()
    assert "it &lt;broke&gt;" in text and text.count("\n| ") == len(CHECKS) + 1


def command(capsys: pytest.CaptureFixture, *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as done:
        main([str(a) for a in arguments])
    return done.value.code, *capsys.readouterr()


def test_text_cannot_break_out_of_a_table_cell():
    evil = "a | b <img src=x> [link](https://x.y) `code` **bold** \n\n# head \x1b[31m & \u202e ~~gone~~ \\"
    finding = Finding(check="c", status="failed", expected=evil, found=evil, advice=evil, seconds=0.1)
    texts = dict.fromkeys(("encoding", "ranking", "source_sha256", "device", "finished"), evil)
    report = Report(**texts, versions={evil: evil}, seconds=1, findings=[finding])
    tokens = MarkdownIt().enable("table").parse(report.markdown())
    inside = {child.type for token in tokens if token.type == "inline" for child in token.children}
    assert inside <= {"text", "text_special", "softbreak", "code_inline"}
    assert sum(token.type == "tr_open" for token in tokens) == 2
    assert sum(token.type == "heading_open" for token in tokens) == 1
    shown = next(t for t in tokens if t.type == "inline" and "img" in t.content and "|" in t.content)
    assert "<img src=x> [link](https://x.y)" in "".join(child.content for child in shown.children)
    assert not any(ord(c) < 32 and c != "\n" for c in report.markdown())
    assert "FAIL" in "\n".join(finding.lines())


def test_reports_with_unknown_fields_are_refused():
    report = dict.fromkeys(("encoding", "ranking", "source_sha256", "device", "finished"), "x")
    report |= {"versions": {}, "seconds": 1.0, "findings": []}
    assert Report.model_validate_json(json.dumps(report)).passed
    with pytest.raises(ValueError, match="extra"):
        Report.model_validate_json(json.dumps(report | {"extra": 2}))
