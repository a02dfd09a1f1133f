"""The tutorial of CONTRIBUTING.md, command by command, on a suite of seconds."""

import re
import shlex
import subprocess
import sys

import yaml
from support import ROOT, suite_dict

TUTORIAL = "## Your own encoding, in an afternoon"


def test_the_tutorials_commands_lead_from_an_idea_to_a_row_on_the_board(tmp_path):
    section = (ROOT / "CONTRIBUTING.md").read_text().split(TUTORIAL)[1].split("\n## ")[0]
    (block,) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    commands = [shlex.split(line, comments=True) for line in block.splitlines()]
    assert [command[:2] for command in commands] == [["lprime", name] for name in ("new", "check", "run", "board")]
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(suite_dict()))
    printed = {}
    for _, *arguments in commands:
        arguments = ["tiny.yaml" if argument == "small" else argument for argument in arguments]
        done = subprocess.run(
            [sys.executable, "-m", "bench.cli", *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, f"{arguments}: {done.stdout} {done.stderr}"
        printed[arguments[0]] = done.stdout
    assert re.search(r"my_encoding: (\d+) of \1 checks passed", printed["check"])
    assert "my\\_encoding" in (tmp_path / "check.md").read_text()
    assert "my_encoding" in printed["board"] and "rope" in printed["board"]
    assert len(list((tmp_path / "runs/tiny").glob("*/my_encoding/seed-0/result.json"))) == 2


def test_the_tutorial_fits_on_two_screens():
    section = (ROOT / "CONTRIBUTING.md").read_text().split(TUTORIAL)[1].split("\n## ")[0]
    assert len(section.splitlines()) <= 2 * 40
