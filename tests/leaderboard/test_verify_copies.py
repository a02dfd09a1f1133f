"""``lprime verify``: runs copied from another seed or from the board, and names published with other source."""

import math
from itertools import combinations

import pytest
from submissions import (
    NAME,
    edit_each,
    edit_runs,
    fault_of,
    findings_of,
    first_wrong,
    publish_as,
    read_results,
)
from support import ROOT

from leaderboard import PUBLISHED
from leaderboard.data.store import read_runs
from leaderboard.submission.verify.training_log import same_losses


def copy_seed_0(runs: list[dict]) -> list[dict]:
    """Replace seed 1 by seed 0, but for times."""
    first = {run["task"]: run for run in runs if run["seed"] == 0}
    own = ("seed", "started", "finished", "timings")
    return [first[run["task"]] | {key: run[key] for key in own} if run["seed"] == 1 else run for run in runs]


@pytest.mark.parametrize(
    "disguise",
    [
        lambda step, loss: loss,
        lambda step, loss: loss * 1.01,
        lambda step, loss: loss + 0.01,
        lambda step, loss: loss if step < 10 else loss * (1 + step / 1000),
        lambda step, loss: loss * (1 + 2e-4 * math.sin(step**3)),
        lambda step, loss: 1.05 * loss * (1 + 1e-4 * math.sin(step**3)),
    ],
    ids=["identical", "scaled", "shifted", "changed after a fifth", "jittered", "scaled and jittered"],
)
def test_copies_of_another_seed(folder, disguise):
    edit_runs(folder, copy_seed_0)

    def disguise_seed_1(run: dict) -> None:
        if run["seed"] == 1:
            run["loss"] = [[step, disguise(step, loss)] for step, loss in run["loss"]]

    edit_each(folder, disguise_seed_1)
    assert fault_of(folder, "copies") == "copying seed 1 is a copy of copying seed 0; parity seed 1 is a copy of parity seed 0"


def test_seeds_with_similar_losses_are_no_copies():
    """Of ``language``, where those of different seeds differ least."""
    runs = [run for run in read_runs(ROOT / PUBLISHED / "results" / "language") if run.encoding.name == "rope"]
    assert len(runs) >= 3 and not any(same_losses(one, other) for one, other in combinations(runs, 2))


def test_copies_of_published_runs(folder, tmp_path):
    board = publish_as(read_results(folder), "theirs", tmp_path / "board")
    assert "copying seed 0 is a copy of the published copying seed 0 of theirs" in fault_of(folder, "copies", published=board)
    assert findings_of(folder)["copies"].status == "passed"
    own = publish_as(read_results(folder), NAME, tmp_path / "own")
    assert findings_of(folder, published=own)["copies"].status == "passed", "the encoding's own published runs"


def test_jittered_copies_of_published_runs(folder, tmp_path):
    board = publish_as(read_results(folder), "theirs", tmp_path / "board")

    def jitter(run: dict) -> None:
        run["loss"] = [[step, loss * (1 + 2e-4 * math.sin(step**3))] for step, loss in run["loss"]]
        for score in run["scores"]:
            score["nll"] *= 1.005

    edit_each(folder, jitter)
    assert "copying seed 0 is a copy of the published copying seed 0 of theirs" in fault_of(folder, "copies", published=board)


def test_a_published_name_keeps_its_source(folder, tmp_path):
    """With other settings and in a wrapper too."""
    published = {NAME: "0" * 64, f"{NAME}(rate=2)": "1" * 64, f"randomised({NAME})": "2" * 64}
    for n, (name, digest) in enumerate(published.items()):
        others = [r.model_copy(update={"suite": "other", "fingerprint": "0" * 16}) for r in read_results(folder)]
        records = [r.encoding.model_copy(update={"name": name, "source_sha256": digest}) for r in others]
        runs = [r.model_copy(update={"encoding": e}) for r, e in zip(others, records, strict=True)]
        place = tmp_path / f"{n}/results/other"
        place.mkdir(parents=True)
        (place / f"{name}.jsonl").write_text("".join(r.model_dump_json() + "\n" for r in runs))
        expected = f"{name} is published with source {digest[:12]}, which is not this source"
        assert fault_of(folder, "copies", published=tmp_path / str(n)) == expected


def test_the_same_losses_with_other_scores_are_no_copy(folder, tmp_path):
    board = publish_as(read_results(folder), "theirs", tmp_path / "board")
    edit_each(folder, lambda run: run["scores"][-1].update(exact=0.0, token=1 / run["scores"][-1]["tokens"], **first_wrong(16)))
    finding = findings_of(folder, published=board)["copies"]
    found = "no copies among the runs, nor of 6 runs on the board; same losses, but other scores than theirs"
    assert (finding.status, finding.found) == ("passed", found)
