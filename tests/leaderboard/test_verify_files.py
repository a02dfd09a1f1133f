"""``lprime verify``: a stranger's files are read as data, as much as is allowed, and nothing of them runs."""

import json
import os
import pickle
import tracemalloc
from pathlib import Path

import pytest
from submissions import NAME, SOURCE, SUITE, edit_runs, reseal, told, verified

from leaderboard.submission import CHECK, CHECK_PAGE, RESULTS, SUBMISSION
from leaderboard.verify import Verification, verify
from leaderboard.verify import reading as reading_module
from tasks import InputError


def test_a_result_edited_alone_is_told_by_its_hash(folder):
    text = (folder / RESULTS).read_text()
    (folder / RESULTS).write_text(text.replace('"exact":0.0', '"exact":1.0', 1))
    assert told(folder, "hashes") == "results.jsonl is not what submission.json says of it"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda files: files.pop(), f"{SOURCE} is there but not named"),
        (lambda files: files.append({**files[-1], "path": "source/other.py"}), "source/other.py is named but not there"),
        (lambda files: files.append(files[-1]), "a file is named twice"),
    ],
)
def test_files_are_those_that_are_named(folder, change, message):
    reseal(folder, lambda content: change(content["files"]))
    assert told(folder, "hashes") == message


def test_a_gigabyte_of_results_is_refused_unread(folder):
    with open(folder / RESULTS, "r+b") as file:
        file.truncate(2**30)  # sparse
    tracemalloc.start()
    try:
        assert told(folder, "files") == "results.jsonl: 1,073,741,824 bytes, more than 8,388,608, and not read"
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()
    assert verified(folder)["scores"].status == "not run"


@pytest.mark.parametrize("path", [SUBMISSION, CHECK, CHECK_PAGE, SOURCE])
def test_each_file_has_a_size(folder, path):
    with open(folder / path, "r+b") as file:
        file.truncate(2**18 + 1)
    assert told(folder, "files").startswith(f"{path}: 262,145 bytes, more than 262,144, and not read")


def test_a_line_without_end_is_refused(folder):
    (folder / RESULTS).write_text(" " * 2**17 + (folder / RESULTS).read_text())
    assert "line 1 has" in told(folder, "results")


def test_lines_without_end_are_refused(folder):
    (folder / RESULTS).write_text("{}\n" * 100_000)
    assert told(folder, "results") == "100,000 lines, more than 500"


class Bomb:
    """Unpickling it leaves a file."""

    def __init__(self, path: Path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_pickles_are_neither_taken_nor_opened(folder, tmp_path):
    bomb = pickle.dumps(Bomb(tmp_path / "exploded"))
    (folder / "weights.pkl").write_bytes(bomb)
    (folder / "source/table.pt").write_bytes(bomb)
    assert told(folder, "files") == "source/table.pt was not expected; weights.pkl was not expected"
    for path, check in ((RESULTS, "results"), (SUBMISSION, "submission"), (CHECK, "check report")):
        whole = (folder / path).read_bytes()
        (folder / path).write_bytes(bomb)
        assert "not UTF-8 text, so no JSON" in told(folder, check)
        (folder / path).write_bytes(whole)
    (folder / SOURCE).write_bytes(bomb)
    assert f"{NAME}.py is not UTF-8 text" in told(folder, "source")
    assert not (tmp_path / "exploded").exists()
    pickle.loads(bomb)
    assert (tmp_path / "exploded").exists(), "it would have gone off"


def test_yaml_is_not_taken_and_its_tags_do_nothing(folder, tmp_path):
    tag = f"!!python/object/apply:os.mkdir ['{tmp_path}/exploded']\n"
    (folder / "submission.yaml").write_text(tag)
    assert told(folder, "files") == "submission.yaml was not expected"
    for path, check in ((RESULTS, "results"), (SUBMISSION, "submission"), (CHECK, "check report")):
        whole = (folder / path).read_bytes()
        for text in (tag, f"a: {tag}", "format: 1\nname: x\n", "{format: 1}"):
            (folder / path).write_text(text)
            assert "not JSON" in told(folder, check)
        (folder / path).write_bytes(whole)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("depth", [13, 10_000, 100_000])
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deep_nesting_is_refused(folder, depth, opening):
    for path, check in ((SUBMISSION, "submission"), (CHECK, "check report")):
        whole = (folder / path).read_bytes()
        (folder / path).write_text(opening * min(depth, 2**17 // len(opening)))
        assert "nested more than 12 deep" in told(folder, check)
        (folder / path).write_bytes(whole)
    (folder / RESULTS).write_text(opening * min(depth, 10_000) + "\n")
    assert "line 1: nested more than 12 deep" in told(folder, "results")


def test_brackets_in_strings_nest_nothing(folder):
    assert reading_module.strict_json(b'{"a": "' + b'[{\\"' * 100 + b'"}')
    with pytest.raises(InputError, match="nested"):
        reading_module.strict_json(b'["\\\\",' + b"[" * 100)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"format": 1, "format": 1}', "the key 'format' stands twice"),
        ('{"seed": NaN}', "NaN is no number"),
        ('{"seed": -Infinity}', "-Infinity is no number"),
        ('{"seed": ' + "9" * 5000 + "}", "not JSON"),
        ("{}", "suite: Field required"),
        ("\ufeff{}", "not JSON"),
        ("", "not JSON"),
    ],
)
def test_json_says_one_thing(folder, line, message):
    (folder / RESULTS).write_text(line + "\n" + (folder / RESULTS).read_text())
    assert message in told(folder, "results")


@pytest.mark.parametrize(
    "change", [{"seed": "0"}, {"seed": 0.5}, {"steps": True}, {"more": 1}, {"scores": []}, {"threads": None}, {"format": 2}]
)
def test_values_are_not_bent_into_shape(folder, change):
    edit_runs(folder, lambda runs: runs[0].update(change))
    assert told(folder, "results").startswith("line 1: ")


def test_links_pipes_and_strangers_are_not_followed(folder, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (folder / CHECK_PAGE).unlink()
    (folder / CHECK_PAGE).symlink_to(tmp_path / "secret")
    (folder / RESULTS).unlink()
    os.mkfifo(folder / RESULTS)  # to open it would be to wait for ever
    (folder / "source/deep").symlink_to(tmp_path)
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text("x")
    found = reading_module.read_folder(folder)
    assert sorted(found.files) == [CHECK, SOURCE, SUBMISSION]
    assert found.faults == [
        ".git/ was not expected", "check.md is a link", "results.jsonl: not a plain file", "source/deep is a link"
    ]  # fmt: skip
    assert "secret" not in json.dumps(verify(folder, SUITE).model_dump())


def test_names_of_files_are_shown_as_text(folder):
    for name in (b"a\x1b[31m.txt", b"\xff.py", b"<b>|`.md", "\u202etxt".encode()):
        open(os.path.join(os.fsencode(folder), name), "w").close()
    report = verify(folder, SUITE)
    assert report.findings[0].found.count("was not expected") == 4
    shown = report.markdown() + "\n".join(report.findings[0].lines())
    assert shown.encode() and not any(ord(c) < 32 and c != "\n" for c in shown) and "\u202e" not in shown
    assert Verification.model_validate_json(report.model_dump_json()) == report


def test_a_folder_without_end_is_given_up(folder):
    for n in range(300):
        (folder / f"source/m{n}.py").touch()
    assert told(folder, "files") == "source/ has more than 200 entries"


def test_a_folder_that_is_none_is_bad_input(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    for path in (tmp_path / "nowhere", tmp_path / "link", folder / SUBMISSION):
        with pytest.raises(InputError, match="is no folder; expected a submission such as"):
            verify(path, SUITE)
    (folder / SUBMISSION).unlink()
    with pytest.raises(InputError, match=r"holds no submission.json; expected a folder that `lprime submit` wrote"):
        verify(folder, SUITE)
