"""``lprime check``: what each check catches, that honest encodings pass, and that the report of its process is complete."""

from pathlib import Path

import pytest
import torch
from cheat_files import CHECKS, fault_of, make_subject, reference
from commands import run_command
from support import ROOT

from bench.check import Report, check_encoding, run_checks
from bench.check.checks import run_check
from bench.check.contract import declaration_faults
from bench.encodings import Encoding, Stage
from bench.plugins.registry import get_encoding
from bench.sealed import sandbox
from bench.text_rules import unusual_lines
from tasks import InputError

torch.set_num_threads(1)
pytestmark = pytest.mark.usefixtures("fresh_registry")

CAUGHT = [
    ("declaration", "DeclaresNothing", "title is not one line of visible words separated by single spaces: ''; link is"),
    ("declaration", "HasPositionalSettings", "setting base is not keyword-only"),
    ("interface", "WritesIntoTheStream", "`embed` of writes_into_the_stream writes into x; create new tensors"),
    ("interface", "ChangesItsWeights", "in training: a pass changes the model's encoding.scale"),
    ("interface", "GivesInfinity", "`bias` of gives_infinity returns numbers that are not finite"),
    ("interface", "GivesAnotherShape", "`bias` of gives_another_shape returns [4, 3] of torch.float32; expected None, or"),
    ("interface", "MakesAnotherClass", "returns a DeclaresTaskAware; expected a MakesAnotherClass"),
    ("tokens", "UsesTokens", "`positions` gives other ids for other tokens"),
    ("causality", "Peeks", "in training, 11 tokens announced (L is 11): cutting after 1 tokens changes the output at"),
    ("causality", "PeeksInEvaluation", "in evaluation, 11 tokens announced"),
    ("causality", "PeeksPastL", "in training, 19 tokens announced (L is 11)"),
    ("causality", "PeeksOnceTrained", "changes the output at position"),
    ("causality", "ScalesByTheTensor", "changes the output at position"),
    ("causality", "AveragesTheBatch", "the output of a row is another one with other rows"),
    ("memory", "KeepsAnAverage", "the same batch gives another output later"),
    ("randomness", "DependsOnAnAddress", "in training: outputs are others after a model of another seed has loaded"),
    ("randomness", "DrawsElsewhere", "draws from a global generator"),
    ("randomness", "DrawsUndeclared", "but info says random=False"),
    ("randomness", "DrawsNothing", "but info says random=True"),
    ("randomness", "HidesATable", "outputs are others after a model of another seed has loaded the state dict"),
    ("numbers", "Overflows", "fp32, 1 tokens: outputs are not finite, first at position 0"),
    ("numbers", "RoundsPositions", "bf16 autocast changes outputs at L′ by"),
    ("numbers", "RoundsAngles", "bf16 autocast changes outputs at L′ by"),
    ("gradients", "HasAnUnusedParameter", "no gradient reaches encoding.unused"),
    ("gradients", "KeepsParametersInAList", "self.rates[0] is in no module, so it is not trained"),
    ("devices", "ReturnsFromTheCPU", "`bias` returns a tensor on the CPU, wherever its arguments are"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "name", "message"), CAUGHT, ids=[f"{c}-{n}" for c, n, _ in CAUGHT])
def test_what_a_check_catches(check, name, message):
    assert message in fault_of(check, make_subject(name))


def test_every_check_catches_something():
    assert {check for check, _, _ in CAUGHT} == CHECKS.keys()


# Compositions, and two that declare what they use; ``test_encodings_properties.py`` has the catalogue.
@pytest.mark.parametrize("name", ["randomised(t5)", "finetuned(yarn)", "DeclaresTaskAware", "LearnsInItsStage"])
def test_honest_encodings_pass(name):
    subject = make_subject(name)
    for check in CHECKS.values():
        assert check.run(subject)


def test_outcomes_of_a_check():
    passed, failed, error = (
        run_check(CHECKS[check], make_subject(name))
        for check, name in [
            ("devices", "NeedsNumbers"), ("tokens", "UsesTokens"), ("devices", "ForgetsTheDevice"),
        ]
    )  # fmt: skip
    assert [outcome.status for outcome in (passed, failed, error)] == ["passed", "failed", "failed"]
    assert "pass device=at.positions.device" in error.advice
    assert passed.found.startswith("cannot be decided without a GPU")
    assert "forgets_the_device raised an error (cheats.py, line" in error.found
    assert [line.split()[0] for line in failed.lines()] == ["FAIL", "expected", "found", "to"]
    header = {"encoding": "x", "source_sha256": "x", "seconds": 1}
    assert Report(**header, findings=[passed]).passed
    report = Report(**header, findings=[passed, failed])
    assert not report.passed and report.summary() == "x: 1 of 2 checks passed in 1 s; failed: tokens"


@pytest.mark.parametrize(("name", "shown"), [("abacus", True), ("rope", False)])
def test_encodings_see_tokens_and_vocabulary_only_if_they_say_so(name, shown, monkeypatch):
    model, tokens, seen = make_subject(name).model(), torch.full((2, 5), 3), []
    positions = model.encoding.positions
    monkeypatch.setattr(model.encoding, "positions", lambda given, at: seen.append(given) or positions(given, at))
    model.cacheable = False
    model(tokens, 5)
    assert torch.equal(seen[0], tokens * shown)
    assert bool(model.encoding.setup.roles) == bool(model.encoding.setup.symbols) == shown


# --- what a plugin declares

PLAIN = """
from bench.encodings import Encoding, Info
class Plain(Encoding):
    info = Info("plain", "none", "A title", "Ada", 2026, "https://a.org", formula="f", past="p", provenance="o")
    def __init__(self, setup, *, rate: float = 1.0, kind: str = "slow"):
        super().__init__(setup)
"""


def plain(folder: Path, text: str = "", other: str = "", around: str = "{}") -> type[Encoding]:
    """An encoding with valid texts, or with ``other`` in place of ``text``."""
    assert text in PLAIN
    (folder / "plain.py").write_text(PLAIN.replace(text, other) if text else PLAIN)
    return get_encoding(around.format(folder / "plain.py"))


@pytest.mark.parametrize("around", ["{}", "{}(rate=2.0)"])
@pytest.mark.parametrize(
    ("text", "other", "message"),
    [
        ("Ada", "Ada  Lovelace", "authors is not one line of visible words"),
        ("https://a.org", "https://a.org/wiki/RoPE_(ML)", "link is not an https link of plain characters: "),
        ('"o"', '"o", source="official"', "source is none of official code, port, paper only, second-hand, own variant: 'off"),
        ('"o"', '"o", source="own variant", lengths="clip = L/2, scaled"', ""),
    ],
)
def test_texts_that_the_board_refuses(tmp_path, around, text, other, message):
    found = "; ".join(declaration_faults(plain(tmp_path, text, other, around)))
    assert message in found and bool(message) == bool(found)


def test_a_misspelt_hook_is_one_that_nothing_uses(tmp_path):
    used = "    def embed(self, x, at):\n        return self.rotated(x)\n    def rotated(self, x):\n        return x\n"
    run_checks.try_hooks(run_checks.Subject(plain(tmp_path, PLAIN, PLAIN + used)))
    (tmp_path / "misspelt.py").write_text(PLAIN.replace('"plain"', '"misspelt"') + used.replace("self.rotated(x)", "x"))
    with pytest.raises(InputError, match=r"nothing uses `rotated` of misspelt; did you mean `rotate`\?"):
        run_checks.try_hooks(run_checks.Subject(get_encoding(str(tmp_path / "misspelt.py"))))


@pytest.mark.parametrize(
    ("stage", "ranking", "plugin", "fault"),
    [
        (Stage(), "longer", True, ""),
        (Stage(), "task-aware", False, ""),  # as finetuned(abacus)
        (Stage(), "standard", False, "its ranking is not 'longer'"),
        (Stage(0.02), "longer", True, "expected more than 0, at most 0.01"),
        (Stage(0.05), "longer", False, ""),
        (Stage(float("nan")), "longer", True, "expected more than 0, at most 0.01"),
        (Stage(0.125, longer=False), "standard", False, ""),
        (Stage(0.125, longer=False), "standard", True, "rules of submissions do not allow"),
    ],
)
def test_stages_that_the_rules_allow(stage, ranking, plugin, fault):
    found = "; ".join(stage.faults(ranking, plugin))
    assert fault in found and bool(fault) == bool(found)


UNUSUAL = {
    "x = 'a\u200bb'": "line 1: an invisible character (U+200B)",
    r"x = '\x41'": "line 1: an escaped character",
    "x = '" + "a" * 201 + "'": "line 1: 207 characters",
    "x = '" + "a" * 80 + "'": "line 1: a long text",
    "import math, os": "a.py: imports os",
    "from . import x": "a.py: imports .",
    "x = __import__('os')": "line 1: text that is run as code",
    "if self.setup.train_length == 16:": "line 1: compares a task's length",
    "x = [" + "1, " * 301 + "]": ": 301 numbers",
}


@pytest.mark.parametrize("source", UNUSUAL)
def test_unusual_source_is_listed_for_the_reader(source):
    assert any(UNUSUAL[source] in line for line in unusual_lines({"a.py": source.encode()}))


def test_the_templates_and_plain_encodings_have_nothing_unusual():
    templates = [f"bench/plugins/templates/{kind}.py.j2" for kind in ("encoding", "wrapper")]
    for name in (*templates, "bench/encodings/alibi.py", "bench/encodings/kerple.py"):
        found = unusual_lines({name: (ROOT / name).read_bytes()})
        assert all("imports ." in line for line in found), "modules of the same package"


# --- in a process of its own


@pytest.mark.parametrize("name", ["Compiled", "Attends", "Tables"])
def test_odd_but_honest_encodings_pass(name):
    report = check_encoding(reference(name))
    assert report.passed, report.model_dump_json(indent=1)


BREAKS = """
from bench.encodings import Encoding, Info
class Table(Encoding):
    info = Info("table", "none", "t", "a", 2026, "https://a.org", formula="f", past="p", provenance="o", shift_invariant=True)
    def embed(self, x, at):
        print("noise")
        if x.requires_grad:
            raise RuntimeError("it \\x1b[2J broke \\u202e")
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
    assert "table raised an error (table.py, line 8): RuntimeError: it" in report.findings[1].found


def test_escape_codes_of_a_plugin_are_not_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.py").write_text(BREAKS)
    code, printed, _ = run_command("check", "table.py", "--unsafe")
    assert code == 1 and "it \\x1b[2J broke \\u202e" in printed
    assert "\x1b" not in printed and "\u202e" not in printed


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Hangs", "still running after 20 s"),
        ("Hoards", "can't allocate memory"),
        ("Dies", "its process ended (exit code "),
    ],
)
def test_code_that_exceeds_its_limits_or_dies(name, message, monkeypatch):
    monkeypatch.setattr(run_checks, "TIME_LIMIT_S", 20 if name == "Hangs" else 60)
    monkeypatch.setattr(run_checks, "MEMORY_LIMIT_GIB", 3)
    with pytest.raises(InputError) as caught:
        check_encoding(reference(name), sandbox=True)
    assert message in str(caught.value)


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
    assert code == 2 and err.count("\n") == 1 and "but there is none; --unsafe runs the code with your rights" in err
