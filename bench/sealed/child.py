"""A process in the sandbox: ``python -m bench.sealed.child FD MODULE``. It limits itself before it loads anything else."""

import importlib
import socket
import sys

from .channel import Channel
from .sandbox import limit_resources


def main(descriptor: int, module: str) -> None:
    """Receive an order, limit this process, and let the module's ``serve(channel, order)`` answer."""
    channel = Channel(socket.socket(fileno=descriptor))
    _, _, order = channel.receive()
    limit_resources(order["seconds"], order["gib"], order["sandboxed"])
    importlib.import_module(module).serve(channel, order)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
