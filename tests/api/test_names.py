"""The public Python API: names of ``lprime`` are loaded on first use, and suffice for an encoding."""

import re
import subprocess
import sys

import pytest
from plain_source import SOURCE

import lprime
from bench.plugins.registry import get_encoding


def test_names_are_loaded_on_first_use():
    code = "import sys, lprime; print({'torch', 'numpy', 'bench'} & {*sys.modules}); print(lprime.Task, lprime.__version__)"
    lines = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[0] == "set()" and re.fullmatch(r"<class 'tasks\.base\.Task'> \d+\.\d+\.\d+", lines[1])
    assert all(hasattr(lprime, name) for name in dir(lprime))
    with pytest.raises(AttributeError, match="module 'lprime' has no attribute 'Encodin'"):
        lprime.Encodin  # noqa: B018


def test_an_encoding_written_with_public_names_alone(tmp_path):
    path = tmp_path / "plain.py"
    path.write_text(SOURCE)
    assert issubclass(get_encoding(str(path)), lprime.Encoding)
    with pytest.raises(lprime.InputError, match="did you mean 'rope'"):
        get_encoding("rop")
