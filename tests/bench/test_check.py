"""``lprime check``: honest encodings pass, and the report is complete. ``cheat_files.py`` has what does not pass."""

import contextlib
import json
import re
from types import SimpleNamespace

import pytest
import torch
from cheat_files import CHECKS, TINY, make_subject
from commands import run_command
from support import ROOT

from bench.check import Report, check_encoding, run_checks
from bench.check.checks import run_check, time_limit
from bench.check.subject import Subject
from bench.check.unusual import unusual_lines
from bench.plugins.registry import get_encoding
from bench.sealed import sandbox
from tasks import InputError

torch.set_num_threads(1)

TEXTS = ("encoding", "ranking", "source_sha256", "device", "finished")
"""Fields of a report."""

pytestmark = pytest.mark.usefixtures("fresh_registry")


def test_a_verdict_that_cannot_be_had_is_not_ok():
    shown, go_on = run_check(CHECKS["devices"], make_subject("SolvesRealPrompts"))
    assert shown.found.startswith("cannot be decided without a GPU: ") and go_on
    assert [line[:12] for line in shown.lines()] == ["  ?   devices"[:12]]
    report = Report(**dict.fromkeys(TEXTS, "x"), versions={}, seconds=1, findings=[shown])
    assert report.passed and report.summary() == "x: 0 of 1 checks passed in 1 s; undecided: devices"


# Compositions, and one that declares what it uses; ``test_encodings_properties.py`` has the catalogue.
HONEST = ["randomised(t5)", "interpolated(rope)", "finetuned(yarn)", "DeclaresTaskAware", "LearnsInItsStage"]


@pytest.mark.parametrize("name", HONEST)
def test_honest_encodings_pass(name):
    subject = make_subject(name)
    for check in CHECKS.values():
        if check.name not in ("cost", "learning"):  # slow, and of larger models
            assert check.run(subject)


def test_an_unknown_check_is_bad_input():
    with pytest.raises(InputError, match="unknown check 'interfce'; did you mean 'interface'"):
        check_encoding("nope", only=["interfce"])


@pytest.mark.parametrize(("status", "advice"), [("passed", "use at.announced_length"), ("failed", "pass causality first")])
def test_what_follows_from_a_causality_fault_points_to_it(status, advice, monkeypatch):
    def run_in_process(code, checks, add, time_limit_s):
        for check, outcome in zip(checks, (status, "failed"), strict=True):
            add(check.outcome(outcome, "", check.advice))
        return report

    report = Report(**dict.fromkeys(TEXTS, "x"), versions={}, seconds=1, findings=[])
    monkeypatch.setattr(run_checks, "run_in_process", run_in_process)
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
def test_the_command_stops_at_an_error_and_reports_as_json(tmp_path, monkeypatch):
    """The error is one that only training raises; ``tests/cli/test_mistakes.py`` has those that the first call raises."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.py").write_text(BREAKS)
    code, printed, err = run_command("check", "table.py", "--sandbox", "--json")
    assert code == 1, err
    report = Report.model_validate_json(printed)
    assert [f.check for f in report.findings] == list(CHECKS)
    assert report.encoding == "table" and not report.passed
    assert [f.status for f in report.findings] == ["passed", "failed"] + ["not run"] * (len(CHECKS) - 2)
    failed = report.findings[1]
    assert (failed.check, failed.found) == ("mutation", "table.py, line 8: RuntimeError: it <broke>")
    assert failed.advice.startswith("correct that line")


HEADER = ("encoding", {**dict.fromkeys(TEXTS[:4], "x"), "versions": {}})
FORGED = [
    ("encoding", {}),
    ("encoding", HEADER[1] | {"ranking": 3}),
    ("encoding", HEADER[1] | {"findings": []}),
    ("finding", {}),
    ("finding", {"finding": {"status": "splendid"}}),
    ("finding", {"finding": {"status": "passed", "found": "", "advice": ""}}),
]


@pytest.mark.parametrize("kind, values", FORGED)
def test_messages_are_read_as_untrusted(monkeypatch, kind, values):
    """A plugin's code can write to the socket of its process."""

    class Process(contextlib.nullcontext):
        messages = iter([(kind, {}, values)] if kind == "encoding" else [(*HEADER[:1], {}, HEADER[1]), (kind, {}, values)])

        def __enter__(self):
            return SimpleNamespace(limit_time=lambda *_: None, receive=lambda: next(self.messages))

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
        shown, go_on = run_check(CHECKS["batches"], subject, subject.own_files)
    assert shown.status == "failed" and not go_on
    assert re.fullmatch(r"table\.py, line (8|9|10): too late", shown.found)


def test_escape_codes_of_a_plugin_are_not_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.py").write_text(BREAKS.replace("it <broke>", "\\x1b[2J ALL CHECKS PASSED \\u202e"))
    code, printed, _ = run_command("check", "table.py", "--unsafe")
    assert code == 1 and "\\x1b[2J ALL CHECKS PASSED \\u202e" in printed
    assert "\x1b" not in printed and "\u202e" not in printed


UNUSUAL = {
    "x = eval('1')": "line 1: eval",
    "import subprocess as s": "line 1: imports subprocess (standard library)",
    "import einops": "line 1: imports einops (other package)",
    "def f(setup): return setup.longest_tokens": "line 1: uses longest_tokens",
    "x = 'a\u200bb'": "line 1: an invisible character (U+200B)",
    r"x = '\x41'": "line 1: escapes in",
    "x = '" + "a" * 201 + "'": "line 1: a string of 201 characters",
    "x = b'1'": "line 1: bytes",
    "x = [" + "1, " * 301 + "]": ": 301 numbers",
    "def f(x: Float[Tensor, 'S']): isinstance(x, Float[Tensor, 'S'])": "line 1: isinstance",
    "x = (": ": is not Python in UTF-8 (SyntaxError)",
}


@pytest.mark.parametrize("source", UNUSUAL)
def test_unusual_source_is_listed_for_the_reader(source):
    assert any(UNUSUAL[source] in line for line in unusual_lines({"a.py": source.encode()}))


def test_the_template_and_plain_encodings_have_nothing_unusual():
    for name in ("bench/plugins/template.py", "bench/encodings/alibi.py", "bench/encodings/kerple.py"):
        assert unusual_lines({name: (ROOT / name).read_bytes()}) == []


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
def test_checked_code_sees_its_own_files_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SECRET", "x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/reads.py").write_text(READS)
    (tmp_path / "folder/other.txt").write_text("x")
    with pytest.raises(InputError, match=rf"sees \['{tmp_path}/folder/reads.py'\]"):
        check_encoding("folder/reads.py", sandbox=True)


def test_without_a_sandbox_the_command_says_so_or_refuses(tmp_path, monkeypatch):
    monkeypatch.setattr(run_checks, "sandbox_fault", lambda: "there is none")
    monkeypatch.setattr(sandbox, "sandbox_fault", lambda: "there is none")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reads.py").write_text(READS)
    code, _, err = run_command("check", "reads.py")
    assert code == 2 and err.startswith("without a sandbox, so the code has your rights: there is none\n") and "reads.py" in err
    code, _, err = run_command("check", "reads.py", "--sandbox")
    assert code == 2 and err.count("\n") == 1 and "but there is none; --unsafe runs it with your rights" in err


def test_reports_with_unknown_fields_are_refused():
    report = dict.fromkeys(TEXTS, "x")
    report |= {"versions": {}, "seconds": 1.0, "findings": []}
    assert Report.model_validate_json(json.dumps(report)).passed
    with pytest.raises(ValueError, match="extra"):
        Report.model_validate_json(json.dumps(report | {"extra": 2}))
