"""The tutorial of CONTRIBUTING.md, command by command, on a suite of seconds; links in the documents."""

import re
import shlex

import pytest
import yaml
from support import ROOT, lprime, suite_dict

from bench.result import SOURCE_KINDS
from bench.runs.run import plan_runs
from bench.runs.run_one import run_one
from bench.suites.suite import load_suite
from leaderboard.results.store import publish as publish_runs


def test_the_tutorial_leads_to_a_row_on_the_board(tmp_path, fresh_registry):
    section = (ROOT / "CONTRIBUTING.md").read_text().split("## Your own encoding, in an afternoon")[1].split("\n## ")[0]
    (block,) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    commands = [shlex.split(line, comments=True) for line in block.splitlines()]
    steps = ("new", "check", "run", "board", "probe", "submit")
    assert [command[:2] for command in commands] == [["lprime", name] for name in steps]
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(suite_dict()))
    for one in plan_runs(load_suite(str(tmp_path / "tiny.yaml")), ["nope"]):
        run_one(one, tmp_path / "theirs", "cpu")
    publish_runs("tiny", tmp_path / "theirs", tmp_path / "leaderboard/published")
    printed = {}
    for _, *arguments in commands:
        arguments = ["tiny.yaml" if argument == "small" else argument for argument in arguments]
        if arguments[0] == "run":
            arguments += ["--workers", "1"]  # a second one would take longer to start than its run
        done = lprime(*arguments, cwd=tmp_path)
        assert done.returncode == 0, f"{arguments}: {done.stdout} {done.stderr}"
        printed[arguments[0]] = done.stdout
    assert re.search(r"my_encoding: (\d+) of \1 checks passed", printed["check"])
    rows = printed["board"].replace("\u00a0", " ").splitlines()
    assert [any(line.startswith(name) for line in rows) for name in ("my_encoding (local) ", "nope ")] == [True, True]
    assert len(list((tmp_path / "runs/tiny").glob("*/my_encoding/seed-0/result.json"))) == 2
    assert "records of probes under runs/tiny" in printed["probe"]
    assert "written to leaderboard/submissions/my_encoding, under Apache-2.0" in printed["submit"]


def test_every_kind_of_source_is_explained():
    text = " ".join((ROOT / "CONTRIBUTING.md").read_text().split())
    assert [kind for kind in SOURCE_KINDS if f'`"{kind}"`' not in text] == [] and "`lengths`" in text


def headings(text: str) -> set[str]:
    """Their anchors on GitHub."""
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


@pytest.mark.parametrize(
    "name",
    [f"{folder}README.md" for folder in ("", "leaderboard/", "leaderboard/submissions/", "slurm/")]
    + ["CONTRIBUTING.md", "leaderboard/RULES.md"],
)
def test_links_and_images_exist(name):
    text = (ROOT / name).read_text()
    for target in re.findall(r"(?:\]\(|src=\"|srcset=\")([^)\s\"]+)[)\"]", text):
        place, _, anchor = target.partition("#")
        if place.startswith("https://"):
            continue
        file = (ROOT / name).parent / place if place else ROOT / name
        assert file.exists(), f"{name}: {target}"
        assert not anchor or anchor in headings(file.read_text()), f"{name}: {target}"
