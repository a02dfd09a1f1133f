"""``lprime check``: each cheat is told by the check it belongs to, what keeps the rules passes, and the report is whole."""

import json
import subprocess
import sys

import pytest
import torch
from markdown_it import MarkdownIt
from support import ROOT, suite_dict

import bench.check.run
import bench.evaluate
from bench import encodings, plugins
from bench.check import Finding, Report, subject, touch
from bench.check import check as run_checks
from bench.check.subject import Fault, Subject
from bench.cli import main
from bench.suite import Suite, validated
from tasks import InputError

torch.set_num_threads(1)

CHEATS = ROOT / "tests/plugins/cheats.py"
CHECKS = {check.name: check for check in subject.load_checks()}
TINY = validated(Suite, suite_dict(model={"layers": 3}, tasks=[
    {"task": "copying", "variant": "repeat", "train_length": 4},
    {"task": "addition", "variant": "reversed", "train_length": 2},
]), "tiny")  # fmt: skip
DEEP = validated(Suite, suite_dict(name="deep", model={"layers": 4}), "deep")
"""The suites' models have more layers than the quick one's, and not all the same number."""


@pytest.fixture(autouse=True)
def nothing_loaded(monkeypatch):
    """Each test loads plugins anew."""
    monkeypatch.setattr(plugins, "loaded", plugins.Loaded())


def under_check(name: str, **more) -> Subject:
    """A built-in, or one of the cheats, on a suite of seconds."""
    before = touch.harness()
    cls = encodings.get(f"{CHEATS}:{name}" if name[0].isupper() else name)
    return Subject(cls, suite=TINY, others=[DEEP], harness=before, **more)


def fault(check: str, subject: Subject) -> str:
    """What a check finds wrong; nothing is the test's failure."""
    with pytest.raises(Fault) as caught:
        CHECKS[check].run(subject)
    return str(caught.value)


TOLD = [
    ("causality", "PeeksThroughTheBias", "first in layer 0 of 0 … 2"),
    ("causality", "PeeksThroughTheEmbedding", "in training, 11 tokens (L is 11), copying"),
    ("causality", "PeeksInEvaluation", "in evaluation, 11 tokens"),
    ("causality", "PeeksInInference", "in evaluation, 11 tokens"),
    ("causality", "PeeksUnderAutocast", "in training, 19 tokens"),
    ("causality", "PeeksPastL", "in training, 19 tokens (L is 11)"),
    ("causality", "PeeksInLongSequences", "in training, 19 tokens (L is 11)"),
    ("causality", "PeeksAtOneLength", "in evaluation, 14 tokens (L is 11)"),
    ("causality", "PeeksAtOnePlace", "the output at place 5 changes with tokens after 5"),
    ("causality", "PeeksInTheLastLayer", "first in layer 2 of 0 … 2"),
    ("causality", "PeeksInAFourthLayer", "first in layer 3 of 0 … 3"),
    ("causality", "PeeksOnceTrained", "the output at place 0 changes with tokens after 0"),
    ("causality", "LooksAhead", "changes with tokens after"),
    ("cutting", "ScalesByTheTensor", "is another one when the sequence is cut after"),
    ("batches", "Averages", "a row's output changes with what stands in the other rows"),
    ("memory", "KeepsAnAverage", "the same batch gives another output in turn"),
    ("memory", "KeepsInAGlobal", "passes change global SEEN of cheats.py"),
    ("memory", "KeepsInAnotherModule", "passes change global KEPT of kept.py"),
    ("memory", "Counts", "passes change class attribute Counts.calls"),
    ("memory", "KeepsTokens", "passes change attribute kept of KeepsTokens"),
    ("determinism", "HangsOnAnAddress", "two models of the same seed give other outputs"),
    ("randomness", "DrawsElsewhere", "draws from a generator of the whole process"),
    ("randomness", "DrawsUndeclared", "but info says random=False"),
    ("randomness", "DrawsNothing", "but info says random=True"),
    ("state dict", "HidesATable", "numbers that its state dict has not"),
    ("tokens", "SolvesParity", "`positions` gives other ids for other tokens"),
    ("tokens", "SolvesRealPrompts", "`positions` gives other ids for other tokens"),
    ("tokens", "SolvesInInference", "`positions` gives other ids for other tokens"),
    ("tokens", "LooksAhead", "computes with the tokens it is given (roll)"),
    ("tokens", "KeepsTokens", "computes with the tokens it is given (cumsum)"),
    ("tokens", "LooksAtRoles", "hangs on setup.roles"),
    ("tokens", "LooksAtSymbols", "hangs on setup.symbols"),
    ("surroundings", "ReadsTheEnvironment", "in a pass of training: os.environ CHEAT"),
    ("surroundings", "ReadsAFile", "in a pass of training: o"),
    ("surroundings", "ReadsWhenMade", "when it is made: os.listdir"),
    ("surroundings", "CallsTheNetwork", "socket.__new__"),
    ("surroundings", "LooksAtFrames", "sys._getframe"),
    ("mutation", "WritesIntoTheStream", "`embed` writes into tokens or x"),
    ("mutation", "WritesIntoTheKeys", "`bias` writes into k"),
    ("mutation", "WritesInInference", "in evaluation: `attend` writes into v"),
    ("mutation", "MovesItsWeights", "in training: a pass changes the model's encoding.scale"),
    ("mutation", "MovesTheModel", "a pass changes the model's embedding.weight"),
    ("learning", "MovesItsWeights", "a pass changes the model's encoding.scale"),
    ("learning", "TurnsTheOptimizer", "a pass changes the optimizer's state"),
    ("learning", "SeesNothing", "without a look at the prompt it is 1.8"),
    ("declaration", "SaysNothing", "title is not one line of text: ''; link does not begin with https://"),
    ("declaration", "HasPositionalSettings", "argument base of __init__ is not keyword-only"),
    ("declaration", "HasAStage", "its ranking is not 'longer'"),
    ("interface", "GivesInfinity", "`bias` is not finite"),
    ("interface", "GivesAnotherShape", "`bias` gives [1, 2] of torch.float32; expected None or numbers broadcastable"),
    ("devices", "ForgetsTheDevice", "device"),
    ("positions", "DeclaresShifts", "changes outputs, but info says shift_invariant=True"),
    ("positions", "DeclaresNoShifts", "changes nothing, but info says shift_invariant=False"),
    ("positions", "DeclaresFractions", "position ids that are fractions give IndexError"),
    ("numbers", "Overflows", "19 tokens announced as 19: outputs are not finite, first at place"),
    ("numbers", "RoundsPositions", "bf16 autocast moves outputs at L′ by"),
    ("gradients", "HasAnUnusedParameter", "no gradient reaches encoding.unused"),
    ("cost", "HasTooManyParameters", "1,000,000 parameters, more than the model's"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "name", "message"), TOLD, ids=[f"{c}-{n}" for c, n, _ in TOLD])
def test_a_cheat_is_told(check, name, message):
    assert message in fault(check, under_check(name))


def test_a_plugin_may_not_replace_the_harness(monkeypatch):
    monkeypatch.setattr(bench.evaluate, "correct", bench.evaluate.correct)  # put back after the test
    assert "replaces bench.evaluate.correct" in fault("mutation", under_check("ReplacesTheHarness"))


def test_another_process_must_find_the_same():
    honest = under_check("rope")
    numbers = CHECKS["determinism"].run.__globals__["echo"](honest)
    assert (
        CHECKS["determinism"].run(under_check("rope", echo=lambda: numbers))
        == "equal twice in one process, and in another process"
    )
    for others in ([n + 0.1 for n in numbers], []):
        assert "another process" in fault("determinism", under_check("rope", echo=lambda others=others: others))


def test_every_check_has_a_cheat():
    assert {check for check, _, _ in TOLD} == CHECKS.keys()


# One of each kind of hook, state, ranking and draw.
HONEST = [
    "nope", "alibi_learned", "learned_offset", "sinusoidal_every_layer", "randomised(t5)", "interpolated(rope)",
    "finetuned(yarn)", "abacus", "position_coupling", "fox", "path", "DeclaresThatItLooks",
]  # fmt: skip


@pytest.mark.parametrize("name", HONEST)
def test_what_keeps_the_rules_passes(name):
    subject = under_check(name)
    for check in CHECKS.values():
        if check.name not in ("cost", "learning"):
            assert check.run(subject)


def test_a_further_stage_is_not_asked_to_have_learned():
    assert "the loss fell from" in CHECKS["learning"].run(under_check("finetuned(rope)"))


# --- in a process of its own


def alone(name: str, **limits) -> Finding:
    """What becomes of a plugin that its process does not survive."""
    report = run_checks(f"{CHEATS}:{name}", only=["interface", "positions"], **limits)
    first, second = report.findings
    assert not report.passed
    assert (first.check, first.status, second.status) == ("interface", "failed", "not run")
    return first


def test_what_hangs_is_ended():
    assert alone("Hangs", time_limit_s=1).found == "still at it after 1 s, the limit for all checks together"


def test_what_hoards_is_ended():
    assert alone("Hoards", memory_limit_gb=1).found == "took more than 1 GiB of memory, the limit"


def test_a_second_fence_holds_where_nobody_watches():
    code = "from bench.check.child import limit; limit(30, -1.7); bytearray(2**29)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "MemoryError" in ended.stderr


def test_what_dies_is_told():
    assert alone("Dies").found.startswith("its process died (signal SIGABRT)")


def test_what_hangs_on_import_is_bad_input(tmp_path, monkeypatch):
    monkeypatch.setattr(bench.check.run, "LOAD_LIMIT_S", 2)
    (tmp_path / "slow.py").write_text("while True: pass")
    with pytest.raises(InputError, match=r"slow.py cannot be checked: not loaded after 2 s"):
        run_checks(str(tmp_path / "slow.py"))


READS_ON_IMPORT = """
import os, urllib.request  # what a library reads while it is imported is not the plugin's doing
from pathlib import Path
from bench.encodings import Encoding, Info
SIZE = len(Path(__file__).with_name("table.bin").read_bytes()) + len(os.environ.get("TABLE", ""))
class Table(Encoding):
    info = Info("table", "none", "t", "a", 2026, "https://a.org", formula="f", past="p", provenance="o", shift_invariant=True)
    def rotate(self, q, k, at):
        print("noise")
        raise RuntimeError("it <broke>")
"""


def test_a_command_tells_all_in_text_json_and_markdown(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.py").write_text(READS_ON_IMPORT)
    (tmp_path / "table.bin").write_bytes(b"12345")
    code, printed, err = command(capsys, "check", "table.py", "--json", "--markdown", "report.md")
    assert code == 1, err
    report = Report.model_validate_json(printed)
    assert [f.check for f in report.findings] == list(CHECKS)
    assert report.encoding == "table" and not report.passed
    found = {f.check: f for f in report.findings}
    assert "on import: open" in found["surroundings"].found and "table.bin" in found["surroundings"].found
    assert "os.environ TABLE" in found["surroundings"].found
    assert "urllib" not in found["surroundings"].found
    assert found["interface"].found == "RuntimeError: it <broke> (table.py, line 10)"
    assert found["declaration"].status == "passed"
    text = (tmp_path / "report.md").read_text()
    assert "it &lt;broke&gt;" in text and text.count("\n| ") == len(CHECKS) + 1


def command(capsys: pytest.CaptureFixture, *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as done:
        main([str(a) for a in arguments])
    return done.value.code, *capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "rop"], "unknown encoding 'rop'; did you mean 'rope'?"),
        (["check", "rope", "--time-limit", "0"], "--time-limit must be more than 0, got 0"),
        (["check", "rope", "--memory-limit", "nan"], "--memory-limit must be more than 0, got nan"),
    ],
)
def test_bad_input_is_one_line(capsys, arguments, message):
    code, printed, err = command(capsys, *arguments)
    assert (code, printed, err.count("\n")) == (2, "", 1)
    assert message in err


def test_nothing_breaks_out_of_a_cell():
    evil = "a | b <img src=x> [link](https://x.y) `code` **bold** \n\n# head \x1b[31m & \u202e ~~gone~~ \\"
    finding = Finding(check="c", status="failed", expected=evil, found=evil, advice=evil, seconds=0.1)
    report = Report(
        encoding=evil,
        ranking=evil,
        source_sha256=evil,
        versions={evil: evil},
        device=evil,
        finished=evil,
        seconds=1,
        findings=[finding],
    )
    tokens = MarkdownIt().enable("table").parse(report.markdown())
    inside = {child.type for token in tokens if token.type == "inline" for child in token.children}
    assert inside <= {"text", "text_special", "softbreak", "code_inline"}
    assert sum(token.type == "tr_open" for token in tokens) == 2
    assert sum(token.type == "heading_open" for token in tokens) == 1
    shown = next(t for t in tokens if t.type == "inline" and "img" in t.content and "|" in t.content)
    assert "<img src=x> [link](https://x.y)" in "".join(child.content for child in shown.children)
    assert not any(ord(c) < 32 and c != "\n" for c in report.markdown())
    assert "FAIL" in "\n".join(finding.lines())


def test_json_is_strict():
    with pytest.raises(ValueError):
        Report.model_validate(json.loads('{"format": 1, "extra": 2}'))
