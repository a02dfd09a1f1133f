"""Side effects: a plugin must not access files, the environment, the network, other processes or the harness's frames."""

import importlib
import linecache
import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import torch

from .checks import Fault, encoding_check
from .subject import Subject, hidden_states

EVENTS = (
    "open", "os.", "socket.", "subprocess.", "shutil.", "glob.", "urllib.", "http.", "ftplib.", "smtplib.", "ctypes.", "mmap.",
    "sqlite3.", "fcntl.", "tempfile.", "pathlib.", "signal.", "_thread.", "sys.settrace", "sys.setprofile",
    "sys._getframe", "gc.",
)  # fmt: skip
"""Prefixes of the audit events that are recorded (https://docs.python.org/3/library/audit_events.html)."""
DIRECT_EVENTS = ("gc.", "sys._getframe")
"""Events that libraries raise too; they count only if the plugin's own code is the caller."""
IMPORTS = (
    *(m.__file__ for m in (importlib, linecache) if m.__file__),
    "<frozen importlib._bootstrap>",
    "<frozen importlib._bootstrap_external>",
)
STANDARD_LIBRARY = sysconfig.get_path("stdlib") + os.sep
DEPTH = 200
"""Maximum number of stack frames examined."""


@dataclass(frozen=True)
class Event:
    """One access to something outside of the process."""

    text: str
    direct: bool
    """Whether it counts only if the plugin itself is the caller."""
    files: tuple[str, ...]
    """Source files on the call stack, innermost first, up to an import (importing reads files, which is allowed)."""

    def caused_by(self, files: set[str]) -> bool:
        if self.direct:
            callers = [f for f in self.files if not f.startswith((STANDARD_LIBRARY, "<frozen"))]
            return bool(callers) and callers[0] in files
        return any(f in files for f in self.files)


class Recorder:
    """Records audit events while ``events`` is a list."""

    events: list[Event] | None = None

    def on_event(self, event: str, arguments: tuple) -> None:
        if self.events is None or not event.startswith(EVENTS):
            return
        if event == "open" and isinstance(arguments[0], int):
            return  # a file that is open already
        argument = f" {arguments[0]}" if arguments and isinstance(arguments[0], str) else ""
        self.record(f"{event}{argument}", event.startswith(DIRECT_EVENTS))

    def record(self, text: str, direct: bool) -> None:
        events, self.events = self.events, None  # sys._getframe raises an event itself
        files: list[str] = []
        frame = sys._getframe(2)
        while frame is not None and len(files) < DEPTH:
            name = frame.f_code.co_filename
            if name in IMPORTS:
                break
            files.append(name)
            frame = frame.f_back  # type: ignore[assignment]
        self.events = events
        if events is not None:
            events.append(Event(text, direct, tuple(files)))


@cache
def recorder() -> Recorder:
    """The recorder of this process: audit hooks cannot be removed."""
    instance = Recorder()
    sys.addaudithook(instance.on_event)

    def recording(original):
        def read(environment, *key):
            if instance.events is not None:
                instance.record(f"os.environ {key[0] if key else ''}".strip(), False)
            return original(environment, *key)

        return read

    # Reading the environment raises no event, but every read by os.environ or os.getenv ends in these two methods.
    environment = type(os.environ)
    for name in ("__getitem__", "__iter__"):
        setattr(environment, name, recording(getattr(environment, name)))
    return instance


@contextmanager
def recorded_events() -> Iterator[list[Event]]:
    """The events raised inside the ``with`` block."""
    events: list[Event] = []
    recorder().events = events
    try:
        yield events
    finally:
        recorder().events = None


@encoding_check(
    "surroundings",
    expected="the encoding does not access files, the environment, the network, other processes or the harness's frames: "
    "not on import, when it is constructed, or in a pass",
    advice="put the numbers it needs into its source, and remove debugging code",
)
def check_surroundings(subject: Subject) -> str:
    case = subject.main
    tokens = case.sequences(3, case.setup.longest_tokens, seed=0)
    recorded: list[tuple[str, list[Event]]] = [("on import", subject.import_events)]
    error: Exception | None = None
    try:
        with recorded_events() as events:
            recorded.append(("when it is constructed", events))
            model = subject.model()
        for training in (True, False):
            with recorded_events() as events:
                recorded.append((f"in a pass of {'training' if training else 'evaluation'}", events))
                for _ in range(2):
                    hidden_states(model, tokens, training=training)
                if training:
                    model(tokens, tokens.shape[1], torch.Generator().manual_seed(0)).square().mean().backward()
    except Exception as caught:  # accesses before the error are reported first
        error = caught
    accesses = [f"{when}: {e.text}" for when, events in recorded for e in events if e.caused_by(subject.files)]
    if accesses:
        raise Fault("; ".join(dict.fromkeys(accesses)))
    if error:
        raise error
    return "accesses nothing but its arguments"
