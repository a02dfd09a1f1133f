"""The process that loads a plugin and goes through the checks; every step is told through a pipe, since it may be the last."""

import json
import os
import resource
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

GIB = 2**30
ROOM = 2
"""GiB of address space for what libraries reserve; memory in use is watched from outside."""
LARGEST_FILE = 2**26
"""Bytes, of what it prints too."""


def main(pipe: int, orders: str) -> None:
    """The process' whole life."""
    order = json.loads(orders)
    limit(order["time_limit_s"], order["memory_limit_gb"])
    from tasks import InputError

    try:
        go(pipe, order)
    except InputError as error:
        tell(pipe, "refused", text=str(error))
    tell(pipe, "end")


def limit(seconds: float, gib: float) -> None:
    """A second fence behind that of ``run.py``: it holds even where nobody watches any more."""
    for what, most in (
        (resource.RLIMIT_CPU, int(seconds) + 10),
        (resource.RLIMIT_DATA, int((gib + ROOM) * GIB)),
        (resource.RLIMIT_FSIZE, LARGEST_FILE),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


def tell(pipe: int, kind: str, **fields: Any) -> None:
    data = json.dumps({"kind": kind} | fields).encode() + b"\n"
    while data:
        data = data[os.write(pipe, data) :]


def go(pipe: int, order: dict[str, Any]) -> None:
    """Load the encoding and run every check.

    Raises:
        InputError: it cannot be loaded.
    """
    import torch

    from .. import encodings
    from ..work import device_name, versions
    from . import outside, state, touch
    from .subject import Subject, load_checks

    torch.set_num_threads(1)
    checks = [c for c in load_checks() if not order["only"] or c.name in order["only"]]
    before = touch.harness()
    with outside.watching() as seen:
        cls = encodings.get(order["reference"])
    if order.get("echo"):
        tell(pipe, "echo", numbers=state.echo(Subject(cls)))
        return
    tell(
        pipe,
        "about",
        encoding=cls.info.name,
        ranking=str(cls.info.ranking),
        source_sha256=encodings.source_hash(cls),
        versions=versions(),
        device=device_name(torch.device("cpu")),
        checks=[{"check": c.name, "expected": c.expected} for c in checks],
    )
    other = Echo(order) if any(c.name == "determinism" for c in checks) else None
    subject = Subject(cls, at_import=seen, harness=before, echo=other)
    for each in checks:
        tell(pipe, "finding", finding=examined(each, subject))


def examined(each, subject) -> dict[str, Any]:
    """Run one check: its status, what it found, what to do about it."""
    from .subject import Fault, Skipped

    start = time.monotonic()
    status, advice = "failed", each.advice
    try:
        found, status, advice = each.run(subject), "passed", ""
    except Fault as fault:
        found, advice = str(fault), fault.advice or each.advice
    except Skipped as skipped:
        found, status, advice = str(skipped), "not run", ""
    except (Exception, SystemExit) as error:
        found = told(error, subject.files)
    return {"status": status, "found": found, "advice": advice, "seconds": round(time.monotonic() - start, 2)}


def told(error: BaseException, files: set[str]) -> str:
    """An error on one line, with the last line of the plugin that was under way."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename in files] or list(frames)
    where = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {' '.join(str(error).split()):.500}{where}"


class Echo:
    """The same encoding in yet another process, under another hash seed; it works while the first checks run."""

    def __init__(self, order: dict[str, Any]):
        ours, theirs = os.pipe()
        self.pipe = ours
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", __package__, str(theirs), json.dumps(order | {"echo": True})],
            pass_fds=[theirs],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONHASHSEED": "12345"},
        )
        os.close(theirs)

    def __call__(self) -> list[float]:
        with os.fdopen(self.pipe) as pipe:
            messages = [json.loads(line) for line in pipe]
        self.process.wait()
        numbers = [message["numbers"] for message in messages if message["kind"] == "echo"]
        return numbers[0] if numbers else []
