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


class ChannelError(Exception):
    """The other side sent no valid message; the text says what happened."""


class Channel:
    """One end of a socket; each message is a kind, a few JSON values and arrays by name."""

    def __init__(self, connection: socket.socket):
        self.connection = connection

    def send(self, kind: str, arrays: Mapping[str, np.ndarray] | None = None, **values: Any) -> None:
        """Send a message; raises ``OSError`` if the other side is gone."""
        contiguous = {name: np.asarray(array, order="C") for name, array in (arrays or {}).items()}
        data = save(contiguous, {"message": json.dumps({"kind": kind} | values)})
        self.connection.sendall(LENGTH.pack(len(data)))
        self.connection.sendall(data)

    def receive(self, within_s: float | None = None) -> tuple[str, dict[str, np.ndarray], dict[str, Any]]:
        """The next message: kind, arrays, values.

        Arguments:
            within_s: seconds to wait; None waits for ever.

        Raises:
            ChannelError: none arrived in time, the other side closed, or it is not a message.
        """
        deadline = None if within_s is None else time.monotonic() + within_s
        (size,) = LENGTH.unpack(self.read(LENGTH.size, deadline))
        if size > MOST_BYTES:
            raise ChannelError(f"a message of {size:,} bytes, more than {MOST_BYTES:,}")
        data = self.read(size, deadline)
        try:
            arrays = load(data)
            header = json.loads(data[8 : 8 + LENGTH.unpack(data[:8])[0]])
            values = json.loads(header["__metadata__"]["message"])
            return values.pop("kind"), arrays, values
        except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ChannelError(f"not a message: {error}") from None

    def read(self, size: int, deadline: float | None) -> bytes:
        parts, missing = [], size
        while missing:
            wait = None if deadline is None else deadline - time.monotonic()
            if wait is not None and wait <= 0:  # also if bytes still arrive, one by one
                raise ChannelError("no answer in time")
            self.connection.settimeout(wait)
            try:
                part = self.connection.recv(min(missing, CHUNK))
            except TimeoutError:
                raise ChannelError("no answer in time") from None
            except OSError as error:
                raise ChannelError(str(error)) from None
            if not part:
                raise ChannelError("its process ended")
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)
