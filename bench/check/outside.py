"""What a plugin's own code asks of the world outside of its arguments: files, environment, network, other processes."""

import importlib
import linecache
import os
import sys
import sysconfig
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from .subject import Fault, Subject, check, states

EVENTS = (
    "open", "os.", "socket.", "subprocess.", "shutil.", "glob.", "urllib.", "http.", "ftplib.", "smtplib.", "ctypes.", "mmap.",
    "sqlite3.", "fcntl.", "tempfile.", "pathlib.", "signal.", "_thread.", "sys.settrace", "sys.setprofile",
    "sys._getframe", "gc.",
)  # fmt: skip
"""Audit events that say so (https://docs.python.org/3/library/audit_events.html), by how they begin."""
INSIDE = ("gc.", "sys._getframe")
"""Those that look at the harness rather than at the world; libraries do so too, so only a plugin's own call counts."""
IMPORTS = (
    *(m.__file__ for m in (importlib, linecache) if m.__file__),
    "<frozen importlib._bootstrap>",
    "<frozen importlib._bootstrap_external>",
)
STANDARD = sysconfig.get_path("stdlib") + os.sep
DEPTH = 200


@dataclass(frozen=True)
class Event:
    """Something that was asked for."""

    text: str
    direct: bool
    """It counts only where a plugin itself asks, without a library in between."""
    frames: tuple[str, ...]
    """The files whose code was at work, innermost first, up to an import, whose reading of code is nobody's fault."""

    def by(self, files: set[str]) -> bool:
        """Was it one of these files' code?"""
        if self.direct:
            own = [f for f in self.frames if not f.startswith((STANDARD, "<frozen"))]
            return bool(own) and own[0] in files
        return any(f in files for f in self.frames)


@dataclass
class Watch:
    """Set up once a process: an audit hook cannot be taken away again."""

    events: list[Event] | None = None
    """Where to note what is asked for; None while nobody watches."""
    ready: bool = False
    own: list[types.CodeType] = field(default_factory=list)

    def install(self) -> None:
        if self.ready:
            return
        self.ready = True
        sys.addaudithook(self.hear)
        # Reading the environment raises no event. All ways through os.environ and os.getenv lead here.
        environment = type(os.environ)
        for name in ("__getitem__", "__iter__"):
            setattr(environment, name, self.reading(getattr(environment, name)))

    def hear(self, event: str, arguments: tuple) -> None:
        if self.events is None or not event.startswith(EVENTS):
            return
        if event == "open" and isinstance(arguments[0], int):
            return  # a file that is open already
        what = f" {arguments[0]}" if arguments and isinstance(arguments[0], str) else ""
        self.note(f"{event}{what}", event.startswith(INSIDE))

    def reading(self, plain):
        def read(environment, *key):
            if self.events is not None:
                self.note(f"os.environ {key[0] if key else ''}".strip(), False)
            return plain(environment, *key)

        return read

    def note(self, text: str, direct: bool) -> None:
        events, self.events = self.events, None  # looking at frames is an event itself
        frames: list[str] = []
        frame = sys._getframe(2)
        while frame is not None and len(frames) < DEPTH:
            name = frame.f_code.co_filename
            if name in IMPORTS:
                break
            frames.append(name)
            frame = frame.f_back  # type: ignore[assignment]
        self.events = events
        if events is not None:
            events.append(Event(text, direct, tuple(frames)))


WATCH = Watch()


@contextmanager
def watching() -> Iterator[list[Event]]:
    """Gather what is asked for in the block."""
    WATCH.install()
    events: list[Event] = []
    WATCH.events = events
    try:
        yield events
    finally:
        WATCH.events = None


@check(
    "surroundings",
    expected="no code of the encoding asks for files, the environment, the network, other processes or the harness's frames: "
    "on import, when it is made, or in a pass",
    advice="put numbers that it needs into its source, and leave out what was for debugging",
)
def surroundings(subject: Subject) -> str:
    case = subject.main
    tokens = case.sequences(3, case.setup.longest_tokens, seed=0)
    seen: list[tuple[str, list[Event]]] = [("on import", subject.at_import)]
    broke: Exception | None = None
    try:
        with watching() as events:
            seen.append(("when it is made", events))
            model = subject.model()
        for training in (True, False):
            with watching() as events:
                seen.append((f"in a pass of {'training' if training else 'evaluation'}", events))
                for _ in range(2):
                    states(model, tokens, training=training)
                if training:
                    model(tokens, tokens.shape[1], torch.Generator().manual_seed(0)).square().mean().backward()
    except Exception as error:  # what was asked for before is told first
        broke = error
    found = [f"{when}: {e.text}" for when, events in seen for e in events if e.by(subject.files)]
    if found:
        raise Fault("; ".join(dict.fromkeys(found)))
    if broke:
        raise broke
    return "nothing but its arguments"
