"""``lprime submit`` and ``lprime verify``: exit codes, formats of the report, bad input on one line."""

import json
import shutil
from pathlib import Path

import pytest
import yaml
from commands import run_command
from submissions import NAME, make_submission_apart, make_suite, reseal
from support import lprime, suite_dict

from leaderboard.submission.claims import submitted_results
from leaderboard.submission.verify import STATIC, Verification

CHANGES = {"seeds": [0, 1]}


@pytest.fixture(scope="module")
def once(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("submitted")
    make_submission_apart(folder, make_suite(**CHANGES))
    (folder / "tiny.yaml").write_text(yaml.safe_dump(suite_dict(**CHANGES)))
    return folder


@pytest.fixture
def here(once, tmp_path, monkeypatch, fresh_registry) -> Path:
    shutil.copytree(once, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


FOLDER = f"submissions/{NAME}"
VERIFY = ("verify", FOLDER, "--suite", "tiny.yaml")
SUBMIT = ("submit", f"{NAME}.py", "--suite", "tiny.yaml")


def test_verify_reports_as_text_json_and_markdown(here):
    code, printed, err = run_command(*VERIFY, "--markdown", "report.md")
    assert (code, err) == (0, "")
    assert printed.endswith("s\n") and f"\nmy_encoding: {len(STATIC)} of {len(STATIC)} checks passed in " in printed
    assert printed.startswith("ok    files ")
    assert (here / "report.md").read_text().startswith("# Verification of my\\_encoding\n")
    code, printed, err = run_command(*VERIFY, "--json")
    assert (code, err) == (0, "")
    assert Verification.model_validate_json(printed).passed


def test_verify_fails_with_advice(here):
    reseal(here / FOLDER, lambda content: content.update(note="<script>"))
    code, printed, err = run_command(*VERIFY)
    assert (code, err) == (1, "")
    assert "FAIL  names\n      expected  names and texts are plain words" in printed
    assert "      found     note contains markdown or HTML (<)\n      to do     write titles" in printed
    assert json.loads(run_command(*VERIFY, "--json")[1])["findings"][5]["status"] == "failed"


def test_options_that_run_code_warn_first(here, monkeypatch):
    monkeypatch.setattr("leaderboard.submission.verify.RERUN_CHECKS", [])
    for option in (["--rerun", "1"], ["--fresh-seeds"]):
        code, printed, err = run_command(*VERIFY, *option, "--choice-seed", "5", "--json")
        assert code == 0 and json.loads(printed)
        assert err.startswith("caution: this runs submitted code") and err.endswith("choice seed 5\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["verify", FOLDER, "--suite", "smal"], "unknown suite 'smal'; did you mean 'small'?"),
        (["verify", FOLDER, "--rerun", "-1"], "--rerun must be a number of runs, or all; got '-1'"),
        (["verify", FOLDER, "--workers", "0"], "Input should be greater than or equal to 1, got '0'"),
        (["verify", FOLDER, "--choice-seed", "-1"], "Input should be greater than or equal to 0, got '-1'"),
        (["verify", FOLDER, "--time-limit", "nan"], "--time-limit must be more than 0 and finite, got nan"),
        (["verify", FOLDER, "--rerun", "some"], "--rerun must be a number of runs, or all; got 'some'"),
        (["submit", f"{NAME}.py", "--suite", "smal"], "unknown suite 'smal'; did you mean 'small'?"),
        ([*SUBMIT, "--to", "tiny.yaml", "--check", "check.json"], "cannot write tiny.yaml"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(here, arguments, message):
    before = sorted(p for p in here.rglob("*") if p.is_file())
    code, printed, err = run_command(*arguments)
    assert (code, printed, err.count("\n")) == (2, "", 1)
    assert message in err
    assert sorted(p for p in here.rglob("*") if p.is_file()) == before, "nothing is written"


def test_results_of_a_submission_are_published_as_unverified(here):
    """The submission is next to the board; the runs of `lprime run` were not sealed either."""
    code, printed, _ = run_command("publish", "tiny.yaml", "--board", "board", "--no-measure")
    assert code == 0 and printed.startswith("tiny: 0 runs added, 0 published before, 4 unverified")
    (stored,) = (here / "board/results/tiny").rglob("*.jsonl")
    assert stored.parent.name == "unverified" and stored.read_bytes() == (here / FOLDER / "results.jsonl").read_bytes()
    reseal(here / FOLDER, lambda content: content.update(note="<script>"))
    assert [r.seed for r in submitted_results(make_suite(**CHANGES), here / "board")] == [], "it does not pass"


def test_submit_and_verify_from_a_shell(here):
    words = ["--author", "A. B.", "--author", "C D", "--title", "On fading", "--paper", "https://a.org/1", "--licence", "MIT"]
    words += ["--note", "A try."]
    done = lprime(*SUBMIT, "--to", "sent", "--check", "check.json", *words, cwd=here)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"written to sent/{NAME}, under MIT; rules: leaderboard/RULES.md;")
    content = json.loads((here / f"sent/{NAME}/submission.json").read_text())
    texts = [content[key] for key in ("title", "authors", "licence", "note")]
    assert texts == ["On fading", ["A. B.", "C D"], "MIT", "A try."]
    assert lprime("verify", f"sent/{NAME}", "--suite", "tiny.yaml", cwd=here).returncode == 0
    with open(here / f"sent/{NAME}/results.jsonl", "r+b") as file:
        file.truncate(2**30)
    done = lprime("verify", f"sent/{NAME}", "--suite", "tiny.yaml", cwd=here)
    assert done.returncode == 1 and "1,073,741,824 bytes, more than 8,388,608, and not read" in done.stdout
