"""Options that many commands share: environment variables, groups of encodings, JSON; local and published results."""

import json
import re
from pathlib import Path

import pytest
import typer
import yaml
from commands import printed, refused
from hypothesis import given
from hypothesis import strategies as st
from support import suite_dict
from synthetic_results import full, store, suite

from leaderboard.results.store import publish as publish_runs
from lprime.cli.options import one

LOCAL, THEIRS = (1, 1, 0.75, 0.5), (1, 1, 0.5, 0.25)


def test_version_and_short_help():
    assert re.fullmatch(r"lprime \d+\.\d+\.\d+\n", printed("--version"))
    assert printed("run", "-h") == printed("run", "--help")


NAME = st.from_regex(r"[a-z]{1,9}(\([a-z]{1,5}=[0-9]{1,3}(,[a-z]{1,5}=[0-9]{1,3}){0,2}\))?", fullmatch=True)


@given(st.lists(NAME, min_size=1, max_size=4))
def test_several_values_of_one_option_are_told_apart_from_commas_in_brackets(names):
    parse, given_text = one(str), ",".join(names)
    if len(names) == 1:
        assert parse(given_text) == given_text
    else:
        with pytest.raises(typer.BadParameter) as refused_as:
            parse(given_text)
        assert str(refused_as.value).endswith(f"repeat the option for each of {', '.join(names)}")


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(suite_dict()))
    return tmp_path


def test_a_name_that_a_board_shows_needs_no_plugin(here):
    store(here / "runs", full(suite(), {"sinks(rope)": LOCAL, "rope": THEIRS}))
    shown = json.loads(printed("compare", "sinks(rope)", "rope", "--suite", "tiny", "--json"))
    assert shown["a"]["encoding"] == "sinks(rope)"
    assert "cannot read encoding sinks.py" in refused("compare", "sinks.py(rope)", "rope", "--suite", "tiny")
    assert "did you mean 'sinks(rope)'?" in refused("compare", "sink(rop)", "rope", "--suite", "tiny")


def test_environment_variables_are_defaults(here, monkeypatch):
    monkeypatch.setenv("LPRIME_OUT", "a b")
    monkeypatch.setenv("LPRIME_WORKERS", "3")
    assert "results under a b/tiny" in (shown := printed("run", "tiny.yaml", "--dry-run")) and "with 3 at a time" in shown
    assert "results under c/tiny" in printed("run", "tiny.yaml", "--dry-run", "--out", "c")
    assert "no results of suite tiny under a b/tiny" in refused("compare", "nope", "rope", "--suite", "tiny.yaml")
    # A cluster file decides instead of LPRIME_WORKERS, but not instead of --workers.
    (here / "c.yaml").write_text("{partition: x, time_minutes: 60}")
    assert "#SBATCH --partition=x" in printed("run", "tiny.yaml", "--dry-run", "--on", "c.yaml")
    assert "--workers and --device apply" in refused("run", "tiny.yaml", "--dry-run", "--on", "c.yaml", "--workers", 3)
    assert not (here / "a b").exists()


@pytest.fixture
def two_places(here) -> Path:
    """Local runs of ``mine`` and ``rope``; published ones of ``rope`` and ``nope``."""
    store(here / "theirs", full(suite(), {"nope": THEIRS, "rope": THEIRS}))
    publish_runs("tiny", here / "theirs", here / "board")
    store(here / "runs", full(suite(), {"mine": LOCAL, "rope": LOCAL}))
    return here


@pytest.mark.parametrize(
    ("pair", "more", "names"),
    [
        ("mine rope", [], ["mine", "rope"]),
        ("mine nope", [], ["mine (local)", "nope"]),
        ("nope rope", [], ["nope", "rope (local)"]),
        ("nope rope", ["--published"], ["nope", "rope"]),
    ],
)
def test_compare_sets_local_runs_against_published_ones(two_places, pair, more, names):
    where = ["--suite", "tiny.yaml", "--board", "board", *more]
    (two_places / "tiny.yaml").write_text(yaml.safe_dump(suite().model_dump(mode="json")))
    shown = json.loads(printed("compare", *pair.split(), *where, "--json"))
    assert [shown[side]["encoding"] for side in "ab"] == names
    for name, side in zip(names, "ab", strict=True):
        local = name in ("mine", "mine (local)", "rope (local)") or (name == "rope" and "mine" in names)
        assert (shown[side]["score.parity"] > 0) is local
    text = printed("compare", *pair.split(), *where)
    assert all(name in text for name in names)
