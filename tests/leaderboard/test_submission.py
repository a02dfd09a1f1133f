"""Submissions: what `lprime submit` writes, what is refused when one is read, and sealed runs of it."""

import json
import os
from functools import partial

import pytest
from support import lprime, new_registry, suite_dict

from bench.plugins import registry
from bench.runs.pool import LocalPool
from bench.runs.run import plan_runs
from bench.sealed.run import SealedRequest
from bench.suites.suite import Suite
from leaderboard.submission import (
    SUBMISSION,
    is_submission,
    read_submission,
    refuse_other_results,
    sealed_code,
    write_submission,
)
from tasks import InputError

SOURCE = """
from bench.encodings import Info
from bench.encodings.alibi import ALiBi


class Mine(ALiBi):
    info = Info(
        name="mine", family="bias", title="Mine", authors="Ada", year=2026, link="https://example.org/mine", formula="s",
        past="goes on", provenance="none", source="own variant",
    )
"""


def suite(**changes) -> Suite:
    return Suite.model_validate(suite_dict(**changes))


@pytest.fixture
def folder(tmp_path, fresh_registry):
    (tmp_path / "mine.py").write_text(SOURCE)
    return write_submission(str(tmp_path / "mine.py"), suite(), tmp_path / "submissions")


def change(folder, **values):
    content = json.loads((folder / SUBMISSION).read_text()) | values
    (folder / SUBMISSION).write_text(json.dumps(content))


def encoding(folder):
    return json.loads((folder / SUBMISSION).read_text())["encoding"]


def test_a_submission_is_source_description_and_suite(folder, tmp_path):
    assert sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()) == ["source/mine.py", SUBMISSION]
    found = read_submission(folder)
    assert is_submission(str(folder)) and not is_submission(str(tmp_path))
    assert found.submission.encoding.name == "mine" and found.submission.suite == "tiny" and found.submission.authors == ["Ada"]
    assert found.source == SOURCE.encode()
    with new_registry():
        assert registry.get_encoding(found.reference).info.name == "mine"
    (folder / "source/mine.py").write_text(SOURCE + "# changed\n")
    one, other = (sealed_code(each, tmp_path).encoding.source_sha256 for each in (found, read_submission(folder)))
    assert one != other


def test_a_composition(tmp_path, fresh_registry):
    (tmp_path / "mine.py").write_text(SOURCE)
    reference = f"randomised({tmp_path}/mine.py)"
    found = read_submission(write_submission(reference, suite(), tmp_path / "to"))
    with new_registry():
        assert registry.get_encoding(found.reference).info.name == found.submission.encoding.name == "randomised(mine)"
    with pytest.raises(InputError, match="exists already; delete it"):
        write_submission(reference, suite(), tmp_path / "to")


def test_built_in_encodings_and_bad_texts_are_not_submitted(tmp_path, fresh_registry):
    with pytest.raises(InputError, match="expected one file of your own"):
        write_submission("rope", suite(), tmp_path)
    (tmp_path / "mine.py").write_text(SOURCE.replace('Mine"', 'Mine  "'))
    with pytest.raises(InputError, match="mine cannot be submitted: title is not one line"):
        write_submission(str(tmp_path / "mine.py"), suite(), tmp_path / "to")
    assert not (tmp_path / "to" / "mine").exists()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: change(f, authors=["a\u200bb"]), "author is not one line of visible words"),
        (lambda f: change(f, reference="../mine.py"), "'../mine.py' should name its one source file"),
        (lambda f: change(f, encoding=encoding(f) | {"name": "rope"}), "the name 'rope' belongs to a built-in encoding"),
        (lambda f: change(f, encoding=encoding(f) | {"name": "../up"}), "its name must be short, without separators"),
        (lambda f: (f / SUBMISSION).write_text("[" * 100_000), "is not a submission"),
        (lambda f: (f / SUBMISSION).unlink(), "has no submission.json; expected a folder written by `lprime submit`"),
        (lambda f: (f / "weights.bin").write_bytes(b"x"), "'weights.bin' is not expected in a submission"),
        (lambda f: (f / "source/link.py").symlink_to("/etc/passwd"), "'source/link.py' is not expected in a submission"),
        (lambda f: os.mkfifo(f / "source/pipe.py"), "'source/pipe.py' is not expected"),
        (lambda f: (f / "source/big.py").write_bytes(b"#" * (2**18 + 1)), "has more than 262,144 bytes"),
        (lambda f: (f / "source/two.py").write_text(""), "should name its one source file"),
    ],
)  # fmt: skip
def test_a_folder_that_is_no_submission(folder, spoil, message):
    spoil(folder)
    with pytest.raises(InputError, match=message):
        read_submission(folder)


@pytest.mark.sandbox
def test_sealed_runs_of_a_submission_are_recorded_as_sealed(folder, tmp_path):
    out, one = tmp_path / "runs", suite(recipe={"steps": 4, "batch": 4, "warmup_steps": 1}, test_examples=4)
    code, found = sealed_code(read_submission(folder), out), {}
    runs = plan_runs(one, ["mine"], [one.tasks[0].task], [0])
    (folder / "source/mine.py").write_text("raise SystemExit('changed after it was read')")
    pool = LocalPool(1, "cpu", request=partial(SealedRequest.of_run, code=code))
    pool.execute(runs, out, lambda event: found.setdefault(event.kind, event.text))
    result = runs[0].result(out)
    assert result and result.sealed and result.encoding.source_sha256 == code.encoding.source_sha256, found
    refuse_other_results(runs, code, out)
    path = runs[0].folder(out) / "result.json"
    path.write_text(path.read_text().replace('"sealed": true', '"sealed": false'))
    with pytest.raises(InputError, match="has a result that is not sealed"):
        refuse_other_results(runs, code, out)


def test_the_commands_refuse_what_is_no_submission(tmp_path):
    assert "leave --device and --keep-weights out" in lprime("run", "quick", "--sealed", "--keep-weights").stderr
    done = lprime("run", "quick", "--sealed", "--encoding", "rope", cwd=tmp_path)
    assert done.returncode == 2 and "--sealed runs one submission; expected --encoding FOLDER" in done.stderr
