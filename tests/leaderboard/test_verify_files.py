"""``lprime verify``: a stranger's files are read as data, within limits, and none of them runs."""

import json
import os
import pickle
import tracemalloc
from pathlib import Path

import pytest
from submissions import NAME, SOURCE, SUITE, edit_runs, fault_of, findings_of, reseal

from leaderboard.submission.manifest import CHECK, CHECK_PAGE, RESULTS, SUBMISSION
from leaderboard.submission.verify import Verification, read_untrusted, verify_submission
from tasks import InputError


def test_an_edited_file_has_another_hash(folder):
    text = (folder / RESULTS).read_text()
    (folder / RESULTS).write_text(text.replace('"exact":0.0', '"exact":1.0', 1))
    assert fault_of(folder, "hashes") == "results.jsonl does not have the size and hash in submission.json"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda files: files.pop(), f"{SOURCE} exists but is not listed"),
        (lambda files: files.append({**files[-1], "path": "source/other.py"}), "source/other.py is listed but does not exist"),
        (lambda files: files.append(files[-1]), "a file is listed twice"),
    ],
)
def test_exactly_the_listed_files_exist(folder, change, message):
    reseal(folder, lambda content: change(content["files"]))
    assert fault_of(folder, "hashes") == message


def test_a_gigabyte_of_results_is_not_read(folder):
    with open(folder / RESULTS, "r+b") as file:
        file.truncate(2**30)  # sparse
    tracemalloc.start()
    try:
        assert fault_of(folder, "files") == "results.jsonl: 1,073,741,824 bytes, more than 8,388,608, and not read"
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()
    assert findings_of(folder)["scores"].status == "not run"


@pytest.mark.parametrize("path", [SUBMISSION, CHECK, CHECK_PAGE, SOURCE])
def test_every_file_has_a_size_limit(folder, path):
    with open(folder / path, "r+b") as file:
        file.truncate(2**18 + 1)
    assert fault_of(folder, "files").startswith(f"{path}: 262,145 bytes, more than 262,144, and not read")


def test_lines_have_limits(folder):
    lines = (folder / RESULTS).read_text()
    (folder / RESULTS).write_text(" " * 2**17 + lines)
    assert "line 1 has" in fault_of(folder, "results")
    (folder / RESULTS).write_text("{}\n" * 100_000)
    assert fault_of(folder, "results") == "100,000 lines, more than 500"


class Bomb:
    """Unpickling it leaves a file."""

    def __init__(self, path: Path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_pickles_are_refused_unopened(folder, tmp_path):
    bomb = pickle.dumps(Bomb(tmp_path / "exploded"))
    (folder / "weights.pkl").write_bytes(bomb)
    (folder / "source/table.pt").write_bytes(bomb)
    assert fault_of(folder, "files") == "weights.pkl is not expected; source/table.pt is not expected"
    for path, check in ((RESULTS, "results"), (SUBMISSION, "submission"), (CHECK, "check report")):
        whole = (folder / path).read_bytes()
        (folder / path).write_bytes(bomb)
        assert "not JSON (not UTF-8 text)" in fault_of(folder, check)
        (folder / path).write_bytes(whole)
    (folder / SOURCE).write_bytes(bomb)
    assert f"{NAME}.py is not UTF-8 text" in fault_of(folder, "source")
    assert not (tmp_path / "exploded").exists()
    pickle.loads(bomb)
    assert (tmp_path / "exploded").exists(), "it would have gone off"


def test_yaml_is_refused_and_its_tags_do_nothing(folder, tmp_path):
    tag = f"!!python/object/apply:os.mkdir ['{tmp_path}/exploded']\n"
    (folder / "submission.yaml").write_text(tag)
    assert fault_of(folder, "files") == "submission.yaml is not expected"
    for path, check in ((RESULTS, "results"), (SUBMISSION, "submission"), (CHECK, "check report")):
        whole = (folder / path).read_bytes()
        for text in (tag, f"a: {tag}", "format: 1\nname: x\n", "{format: 1}"):
            (folder / path).write_text(text)
            assert "not JSON" in fault_of(folder, check)
        (folder / path).write_bytes(whole)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("depth", [13, 10_000, 100_000])
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deep_nesting_is_refused(folder, depth, opening):
    for path, check in ((SUBMISSION, "submission"), (CHECK, "check report")):
        whole = (folder / path).read_bytes()
        (folder / path).write_text(opening * min(depth, 2**17 // len(opening)))
        assert "nested more than 12 deep" in fault_of(folder, check)
        (folder / path).write_bytes(whole)
    (folder / RESULTS).write_text(opening * min(depth, 10_000) + "\n")
    assert "line 1: nested more than 12 deep" in fault_of(folder, "results")


def test_brackets_in_strings_do_not_nest():
    assert read_untrusted.strict_json(b'{"a": "' + b'[{\\"' * 100 + b'"}')
    with pytest.raises(InputError, match="nested"):
        read_untrusted.strict_json(b'["\\\\",' + b"[" * 100)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"format": 1, "format": 1}', "duplicate key 'format'"),
        ('{"seed": NaN}', "NaN is not a number"),
        ('{"seed": -Infinity}', "-Infinity is not a number"),
        ('{"seed": ' + "9" * 5000 + "}", "not JSON"),
        ("{}", "suite: Field required"),
        ("\ufeff{}", "not JSON"),
        ("", "not JSON"),
    ],
)
def test_json_is_strict(folder, line, message):
    (folder / RESULTS).write_text(line + "\n" + (folder / RESULTS).read_text())
    assert message in fault_of(folder, "results")


@pytest.mark.parametrize(
    "change", [{"seed": "0"}, {"seed": 0.5}, {"steps": True}, {"more": 1}, {"scores": []}, {"threads": None}, {"format": 2}]
)
def test_values_are_not_converted(folder, change):
    edit_runs(folder, lambda runs: runs[0].update(change))
    assert fault_of(folder, "results").startswith("line 1: ")


def test_links_pipes_and_unexpected_folders_are_not_opened(folder, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (folder / CHECK_PAGE).unlink()
    (folder / CHECK_PAGE).symlink_to(tmp_path / "secret")
    (folder / RESULTS).unlink()
    os.mkfifo(folder / RESULTS)  # opening it would block
    (folder / "source/deep").symlink_to(tmp_path)
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text("x")
    found = read_untrusted.read_folder(folder)
    assert sorted(found.files) == [CHECK, SOURCE, SUBMISSION]
    assert found.faults == [
        ".git/ is not expected", "check.md is a link", "results.jsonl: not a regular file", "source/deep is a link"
    ]  # fmt: skip
    assert "secret" not in json.dumps(verify_submission(folder, SUITE).model_dump())


def test_file_names_are_shown_as_text(folder):
    for name in (b"a\x1b[31m.txt", b"\xff.py", b"<b>|`.md", "\u202etxt".encode()):
        open(os.path.join(os.fsencode(folder), name), "w").close()
    report = verify_submission(folder, SUITE)
    assert report.findings[0].found.count("is not expected") == 4
    shown = report.markdown() + "\n".join(report.findings[0].lines())
    assert shown.encode() and not any(ord(c) < 32 and c != "\n" for c in shown) and "\u202e" not in shown
    assert Verification.model_validate_json(report.model_dump_json()) == report


def test_the_number_of_files_is_limited(folder):
    for n in range(300):
        (folder / f"source/m{n}.py").touch()
    assert fault_of(folder, "files") == "source/ has more than 200 entries"


def test_sources_beyond_the_limit_are_not_read(folder, monkeypatch):
    for n in range(40):
        for m in range(40):
            path = folder / f"source/p{n}/m{m}.py"
            path.parent.mkdir(exist_ok=True)
            path.touch()
    read, real = [], read_untrusted.read_regular
    monkeypatch.setattr(read_untrusted, "read_regular", lambda path, limit: read.append(path) or real(path, limit))
    assert fault_of(folder, "files") == "more than 64 source files; the others were not read"
    assert len(read) == 64 + 4


def test_the_number_of_folders_is_limited(folder):
    for n in range(40):
        (folder / f"source/p{n}/q").mkdir(parents=True)
    assert fault_of(folder, "files") == "more than 64 folders"


def test_a_folder_without_a_submission_is_bad_input(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    for path in (tmp_path / "nowhere", tmp_path / "link", folder / SUBMISSION):
        with pytest.raises(InputError, match="is not a folder; expected a submission such as"):
            verify_submission(path, SUITE)
    (folder / SUBMISSION).unlink()
    with pytest.raises(InputError, match=r"contains no submission.json; expected a folder that `lprime submit` wrote"):
        verify_submission(folder, SUITE)
