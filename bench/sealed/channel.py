"""Messages between the judge and a sealed process: safetensors, because reading them runs no code and checks all sizes."""

import json
import socket
import struct
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

LENGTH = struct.Struct("<Q")
MOST_BYTES = 2**30
"""Largest message: a model of the suite `standard` has 20 MB of weights."""
CHUNK = 2**20


class SealedError(Exception):
    """The other side failed or broke the protocol; the text says what happened, on one line."""


class Channel:
    """One end of a socket; each message is a kind, a few JSON values and arrays by name."""

    def __init__(self, connection: socket.socket):
        self.connection = connection
        self.deadline: float | None = None
        """Time (``time.monotonic``) until which messages may take; None waits for ever."""
        self.late = "no answer in time"
        """The fault after it."""

    def send(self, kind: str, arrays: Mapping[str, np.ndarray] | None = None, **values: Any) -> None:
        """Send a message; raises ``SealedError`` if the other side is gone or does not read it in time."""
        contiguous = {name: np.asarray(array, order="C") for name, array in (arrays or {}).items()}
        data = save(contiguous, {"message": json.dumps({"kind": kind} | values)})
        self.limit_wait()
        try:
            self.connection.sendall(LENGTH.pack(len(data)) + data)
        except TimeoutError:
            raise self.fault(self.late) from None
        except OSError:
            raise self.fault("its process ended") from None

    def receive(self) -> tuple[str, dict[str, np.ndarray], dict[str, Any]]:
        """The next message: kind, arrays, values.

        Raises:
            SealedError: none arrived in time, the other side closed, or it is not a message.
        """
        (size,) = LENGTH.unpack(self.read(LENGTH.size))
        if size > MOST_BYTES:
            raise self.fault(f"a message of {size:,} bytes, more than {MOST_BYTES:,}")
        data = self.read(size)
        try:
            arrays = load(data)
            header = json.loads(data[8 : 8 + LENGTH.unpack(data[:8])[0]])
            values = json.loads(header["__metadata__"]["message"])
            return values.pop("kind"), arrays, values
        except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise self.fault(f"not a message: {error}") from None

    def read(self, size: int) -> bytes:
        parts, missing = [], size
        while missing:
            self.limit_wait()
            try:
                part = self.connection.recv(min(missing, CHUNK))
            except TimeoutError:
                raise self.fault(self.late) from None
            except OSError as error:
                raise self.fault(str(error)) from None
            if not part:
                raise self.fault("its process ended")
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def fault(self, text: str) -> SealedError:
        return SealedError(text)

    def limit_wait(self) -> None:
        """Limit the next operation of the socket to the time that is left, also if bytes still arrive one by one."""
        left = None if self.deadline is None else self.deadline - time.monotonic()
        if left is not None and left <= 0:
            raise self.fault(self.late)
        self.connection.settimeout(left)
