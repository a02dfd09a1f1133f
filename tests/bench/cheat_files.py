"""The cheats in ``tests/plugins/cheats.py``: by name, and as subjects of checks."""

import os
import threading
from functools import cache
from multiprocessing.connection import Connection
from types import SimpleNamespace

import pytest
import torch
from support import ROOT, suite_dict

from bench.check.checks import load_checks
from bench.check.subject import Subject
from bench.plugins.record import encoding_record
from bench.plugins.registry import get_encoding
from bench.sealed import served_model
from bench.sealed.process import Channel, SealedError
from bench.sealed.sandbox import SealedCode
from bench.suites.suite import Suite, validated
from tasks import InputError

torch.set_num_threads(1)
CHECKS = {check.name: check for check in load_checks()}
TINY = validated(Suite, suite_dict(model={"layers": 3}, tasks=[
    {"task": "copying", "variant": "repeat", "train_length": 4},
]), "tiny")  # fmt: skip


@cache
def reference(name: str) -> str:
    """Of a cheat, by its class; other names are built in."""
    files = [path for path in (ROOT / "tests/plugins").glob("*.py") if f"class {name}(" in path.read_text()]
    return f"{files[0]}:{name}" if files else name


def make_subject(name: str) -> Subject:
    """A cheat or a built-in encoding, on small suites."""
    return Subject(get_encoding(reference(name)), suite=TINY)


def sealed_code(name: str) -> SealedCode:
    """A cheat or a built-in encoding as submitted code."""
    return SealedCode(reference(name), encoding=encoding_record(get_encoding(reference(name))))


def fault_of(check: str, subject: Subject) -> str:
    with pytest.raises(InputError) as caught:
        CHECKS[check].run(subject)
    return str(caught.value)


def start_thread(arguments, code, descriptor, stderr):
    """A sealed process as a thread of this one, which takes no ten seconds to start: messages and models are the same."""
    connection = Connection(os.dup(descriptor))

    def serve() -> None:
        channel = Channel(connection)
        try:
            served_model.serve(channel, channel.receive()[2])
        except (SealedError, OSError):  # the judge has closed it
            connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    return SimpleNamespace(pid=0, returncode=0, kill=lambda: None, wait=lambda timeout=None: thread.join(timeout))
