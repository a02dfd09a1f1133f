"""Atomic writes of files and folders, whatever happens meanwhile."""

import errno
import os
import resource

import pytest

from bench.files import check_writable, folder_atomic, write_atomic
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


def test_a_folder_is_writable_if_a_page_fits(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))  # files can be made, as on a full disk, but stay empty
    try:
        with pytest.raises(InputError, match=rf"cannot write {tmp_path}: File too large"):
            check_writable(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    check_writable(tmp_path)
    assert not list(tmp_path.iterdir())


def write_folder(path, text="new", replace=False):
    with folder_atomic(path, replace) as new:
        (new / "inner").mkdir()
        (new / "inner" / "a.txt").write_text(text)


def test_a_folder_is_only_replaced_when_asked(tmp_path):
    with folder_atomic(tmp_path / "f") as new:
        (new / "inner").mkdir()
        (new / "inner" / "a.txt").write_text("old")
        assert not (tmp_path / "f").exists(), "not before the block ends"
    assert (tmp_path / "f").stat().st_mode == tmp_path.joinpath("f", "inner").stat().st_mode, "readable by others"
    with pytest.raises(InputError, match=r"cannot write .*f: Directory not empty"):
        write_folder(tmp_path / "f")
    assert (tmp_path / "f" / "inner" / "a.txt").read_text() == "old"
    write_folder(tmp_path / "f", replace=True)
    assert (tmp_path / "f" / "inner" / "a.txt").read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


@pytest.mark.parametrize("replace", [False, True])
def test_nothing_is_left_of_a_failed_folder(tmp_path, replace):
    if replace:
        write_folder(tmp_path / "f", "old")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(KeyError), folder_atomic(tmp_path / "f", replace) as new:
        (new / "a.txt").write_text("half")
        raise KeyError
    assert sorted(tmp_path.rglob("*")) == before


def test_a_failed_replacement_restores_the_old_folder(tmp_path, monkeypatch):
    write_folder(tmp_path / "f", "old")
    rename, calls = os.rename, []

    def fails_the_second_time(*arguments, **more):
        calls.append(arguments)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return rename(*arguments, **more)

    monkeypatch.setattr(os, "rename", fails_the_second_time)
    with pytest.raises(InputError, match="No space left"):
        write_folder(tmp_path / "f", replace=True)
    assert len(calls) == 3, "the old one is put back"
    assert (tmp_path / "f" / "inner" / "a.txt").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]
