"""``lprime check``: honest encodings pass, and the report is complete. ``cheat_files.py`` has what does not pass."""

import contextlib
import json
import re
from types import SimpleNamespace

import pytest
import torch
from cheat_files import CHECKS, TINY, make_subject
from commands import run_command
from markdown_it import MarkdownIt

from bench.check import CheckOutcome, Report, check_encoding, judged, run_checks
from bench.check.checks import run_check, time_limit
from bench.check.subject import Subject
from bench.plugins.registry import get_encoding
from bench.sealed import sandbox
from bench.sealed.process import SealedError
from tasks import InputError

torch.set_num_threads(1)

TEXTS = ("encoding", "ranking", "source_sha256", "device", "finished")
"""Fields of a report."""

pytestmark = pytest.mark.usefixtures("fresh_registry")


def test_a_verdict_that_cannot_be_had_is_not_ok():
    finding, go_on = run_check(CHECKS["devices"], make_subject("SolvesRealPrompts"))
    assert finding["found"].startswith("cannot be decided without a GPU: ") and go_on
    shown = CheckOutcome(check="devices", expected="", **finding)
    assert [line[:12] for line in shown.lines()] == ["  ?   devices"[:12]]
    report = Report(**dict.fromkeys(TEXTS, "x"), versions={}, seconds=1, findings=[shown])
    assert report.passed and report.summary() == "x: 0 of 1 checks passed in 1 s; undecided: devices"


# Compositions, and one that declares what it uses; ``test_encodings_properties.py`` has the catalogue.
HONEST = ["randomised(t5)", "interpolated(rope)", "finetuned(yarn)", "DeclaresTaskAware", "LearnsInItsStage"]


@pytest.mark.parametrize("name", HONEST)
def test_honest_encodings_pass(name):
    subject = make_subject(name)
    for check in CHECKS.values():
        if check.name != "cost" and not check.judged:
            assert check.run(subject)


def test_an_unknown_check_is_bad_input():
    with pytest.raises(InputError, match="unknown check 'interfce'; did you mean 'interface'"):
        check_encoding("nope", only=["interfce"])


def test_a_sealed_run_that_fails_is_not_repeated(monkeypatch):
    def fails(*_):
        runs.append(1)
        raise SealedError("too slow")

    runs, report = [], Report(**dict.fromkeys(TEXTS, "x"), versions={}, seconds=1, findings=[])
    monkeypatch.setattr(run_checks, "run_hook_checks", lambda *_: (report, True))
    monkeypatch.setattr(judged, "run_sealed", fails)
    first, second = check_encoding("nope", only=["learning", "sealed run"], sandbox=False).findings
    assert (first.status, first.found, len(runs)) == ("failed", "the sealed run ended: too slow", 1)
    assert (second.status, second.found) == ("not run", "cannot be judged before the failed check is passed")


@pytest.mark.parametrize(("status", "advice"), [("passed", "use at.announced_length"), ("failed", "pass causality first")])
def test_what_follows_from_a_causality_fault_points_to_it(status, advice, monkeypatch):
    def run_hook_checks(code, checks, add, time_limit_s):
        for check, outcome in zip(checks, (status, "failed"), strict=True):
            add(check.finding({"status": outcome, "found": "", "advice": check.advice, "seconds": 0.0}))
        return report, True

    report = Report(**dict.fromkeys(TEXTS, "x"), versions={}, seconds=1, findings=[])
    monkeypatch.setattr(run_checks, "run_hook_checks", run_hook_checks)
    _, cutting = check_encoding("nope", only=["causality", "cutting"], sandbox=False).findings
    assert cutting.advice.startswith(advice)


# --- in a process of its own


@pytest.mark.sandbox
def test_a_plugin_that_hangs_on_import_is_bad_input(tmp_path, monkeypatch):
    monkeypatch.setattr(run_checks, "LOAD_LIMIT_S", 2)
    (tmp_path / "slow.py").write_text("while True: pass")
    with pytest.raises(InputError, match=r"slow.py cannot be checked: not loaded after 2 s"):
        check_encoding(str(tmp_path / "slow.py"))


BREAKS = """
from bench.encodings import Encoding, Info
class Table(Encoding):
    info = Info("table", "none", "t", "a", 2026, "https://a.org", formula="f", past="p", provenance="o", shift_invariant=True)
    def embed(self, x, at):
        print("noise")
        if x.requires_grad:
            raise RuntimeError("it <broke>")
        return x
"""


@pytest.mark.sandbox
def test_the_command_stops_at_an_error_and_reports_as_json_and_markdown(tmp_path, monkeypatch):
    """The error is one that only training raises; ``tests/cli/test_mistakes.py`` has those that the first call raises."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.py").write_text(BREAKS)
    code, printed, err = run_command("check", "table.py", "--sandbox", "--json", "--markdown", "report.md")
    assert code == 1, err
    report = Report.model_validate_json(printed)
    assert [f.check for f in report.findings] == list(CHECKS)
    assert report.encoding == "table" and not report.passed
    statuses = {f.check: f.status for f in report.findings}
    assert statuses.pop("source") == "passed"
    assert list(statuses.values()) == ["passed"] * 2 + ["failed"] + ["not run"] * (len(CHECKS) - 4)
    failed = report.findings[2]
    assert (failed.check, failed.found) == ("devices", "table.py, line 8: RuntimeError: it <broke>")
    assert failed.advice.startswith("correct that line")
    text = (tmp_path / "report.md").read_text()
    assert "it &lt;broke&gt;" in text and text.count("\n| ") == len(CHECKS) + 1


HEADER = ("encoding", {**dict.fromkeys(TEXTS[:4], "x"), "versions": {}})
FORGED = [
    ("encoding", {}),
    ("encoding", HEADER[1] | {"ranking": 3}),
    ("encoding", HEADER[1] | {"findings": []}),
    ("finding", {}),
    ("finding", {"finding": {"status": "splendid"}}),
    ("finding", {"finding": {"check": "source", "status": "passed", "found": "", "advice": "", "seconds": 0}}),
]


@pytest.mark.parametrize("kind, values", FORGED)
def test_messages_are_read_as_untrusted(monkeypatch, kind, values):
    """A plugin's code can write to the socket of its process."""

    class Process(contextlib.nullcontext):
        messages = iter([(kind, {}, values)] if kind == "encoding" else [(*HEADER[:1], {}, HEADER[1]), (kind, {}, values)])

        def __enter__(self):
            return SimpleNamespace(limit_time=lambda *_: None, receive_any=lambda: next(self.messages))

    monkeypatch.setattr(run_checks, "SealedProcess", lambda *_, **__: Process())
    if kind == "encoding":
        with pytest.raises(InputError, match=r"^nope cannot be checked: sent a message with wrong fields$"):
            check_encoding("nope", sandbox=False)
        return
    first, second = check_encoding("nope", only=["interface", "devices"], sandbox=False).findings
    assert (first.status, first.found, second.status) == ("failed", "sent a message with wrong fields", "not run")


def test_a_hook_that_does_not_return_is_reported_with_its_line(tmp_path):
    loop = "while True:\n                try: pass\n                except Exception: pass"
    (tmp_path / "table.py").write_text(BREAKS.replace('raise RuntimeError("it <broke>")', loop))
    subject = Subject(get_encoding(str(tmp_path / "table.py")), suite=TINY, other_suites=[])
    subject.model()  # imports and suites take their time
    with time_limit(2, "too late"):
        finding, go_on = run_check(CHECKS["batches"], subject, subject.own_files)
    assert finding["status"] == "failed" and not go_on
    assert re.fullmatch(r"table\.py, line (8|9|10): too late", finding["found"])


READS = """
import pathlib, os, socket
from bench.encodings import Encoding, Info
class Reads(Encoding):
    info = Info("reads", "none", "t", "a", 2026, "https://a.org", formula="f", past="p", provenance="o", shift_invariant=True)
    def embed(self, x, at):
        found = [*pathlib.Path(__file__).parent.iterdir()] + [name for name in os.environ if "SECRET" in name]
        raise RuntimeError(f"sees {sorted(map(str, found))}")
"""


@pytest.mark.sandbox
@pytest.mark.parametrize("reference", ["folder/reads.py", "folder.reads:Reads"])
def test_checked_code_sees_its_own_files_alone(tmp_path, monkeypatch, reference):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SECRET", "x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/reads.py").write_text(READS)
    (tmp_path / "folder/other.txt").write_text("x")
    with pytest.raises(InputError, match=rf"sees \['{tmp_path}/folder/reads.py'\]"):
        check_encoding(reference, sandbox=True)


def test_without_a_sandbox_the_command_says_so_or_refuses(tmp_path, monkeypatch):
    monkeypatch.setattr(run_checks, "sandbox_fault", lambda: "there is none")
    monkeypatch.setattr(sandbox, "sandbox_fault", lambda: "there is none")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reads.py").write_text(READS)
    code, _, err = run_command("check", "reads.py")
    assert code == 2 and err.startswith("without a sandbox, so the code has your rights: there is none\n") and "reads.py" in err
    code, _, err = run_command("check", "reads.py", "--sandbox")
    assert code == 2 and err.count("\n") == 1 and "but there is none; --unsafe runs it with your rights" in err


def test_text_cannot_break_out_of_a_table_cell():
    evil = "a | b <img src=x> [link](https://x.y) `code` **bold** \n\n# head \x1b[31m & \u202e ~~gone~~ \\"
    finding = CheckOutcome(check="c", status="failed", expected=evil, found=evil, advice=evil, seconds=0.1)
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
