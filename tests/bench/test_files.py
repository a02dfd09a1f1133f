"""Atomic writes of files and folders, whatever happens meanwhile."""

import errno
import os

import pytest

from bench.files import folder_atomic, write_atomic
from tasks import InputError


def test_writes_and_replaces(tmp_path):
    path = tmp_path / "a" / "b.txt"
    write_atomic(path, "one")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert [p.name for p in path.parent.iterdir()] == ["b.txt"], "no temporary file is left"


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_content_and_no_temporary_file(tmp_path, monkeypatch, call):
    path = tmp_path / "b.txt"
    write_atomic(path, "old")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, full)
    with pytest.raises(InputError, match=r"cannot write .*b\.txt: No space left on device"):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["b.txt"]


def test_a_folder_appears_whole_and_replaces_none(tmp_path):
    with folder_atomic(tmp_path / "f") as new:
        (new / "inner").mkdir()
        (new / "inner" / "a.txt").write_text("old")
        assert not (tmp_path / "f").exists(), "not before the block ends"
    assert (tmp_path / "f").stat().st_mode == tmp_path.joinpath("f", "inner").stat().st_mode, "readable by others"
    with pytest.raises(InputError, match=r"cannot write .*f: Directory not empty"), folder_atomic(tmp_path / "f") as new:
        (new / "a.txt").write_text("new")
    assert (tmp_path / "f" / "inner" / "a.txt").read_text() == "old"
    with pytest.raises(KeyError), folder_atomic(tmp_path / "g") as new:
        (new / "a.txt").write_text("half")
        raise KeyError
    assert [p.name for p in tmp_path.iterdir()] == ["f"]
