"""Files are whole or absent, whatever happens while they are written."""

import errno
import os

import pytest

from bench.files import write_atomic
from tasks import InputError


def test_writes_and_replaces(tmp_path):
    path = tmp_path / "a" / "b.txt"
    write_atomic(path, "one")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert [p.name for p in path.parent.iterdir()] == ["b.txt"], "nothing temporary is left"


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_content_and_no_debris(tmp_path, monkeypatch, call):
    path = tmp_path / "b.txt"
    write_atomic(path, "old")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, full)
    with pytest.raises(InputError, match=r"cannot write .*b\.txt: No space left on device"):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["b.txt"]


def test_a_folder_that_is_a_file_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        write_atomic(tmp_path / "file" / "inside.txt", "x")
