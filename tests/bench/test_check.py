"""``lprime check``: each cheat is caught by the check it belongs to, honest encodings pass, and the report is complete."""

import json
import subprocess
import sys
from functools import cache

import pytest
import torch
from bench.check.side_effects import recorded_events
from markdown_it import MarkdownIt
from support import ROOT, suite_dict

import bench.check.run_checks
import bench.training.evaluate
from bench.check import Finding, Report, check_encoding, hook_contract
from bench.check.checks import Fault, load_checks, run_check
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


TEXTS = ("encoding", "ranking", "source_sha256", "device", "finished")
"""Fields of a report."""

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


def test_a_verdict_that_cannot_be_had_is_not_ok():
    finding, go_on = run_check(CHECKS["devices"], make_subject("SolvesRealPrompts"))
    assert finding["found"].startswith("cannot be decided without a GPU: ") and go_on
    shown = Finding(check="devices", expected="", **finding)
    assert [line[:12] for line in shown.lines()] == ["  ?   devices"[:12]]
    report = Report(**dict.fromkeys(TEXTS, "x"), versions={}, seconds=1, findings=[shown])
    assert report.passed and report.summary() == "x: 0 of 1 checks passed in 1 s; undecided: devices"


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
    texts = dict.fromkeys(TEXTS, evil)
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
    report = dict.fromkeys(TEXTS, "x")
    report |= {"versions": {}, "seconds": 1.0, "findings": []}
    assert Report.model_validate_json(json.dumps(report)).passed
    with pytest.raises(ValueError, match="extra"):
        Report.model_validate_json(json.dumps(report | {"extra": 2}))
