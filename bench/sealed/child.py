"""A process in the sandbox: ``python -m bench.sealed.child FD MODULE``. It limits itself before it loads anything else."""

import importlib
import sys
from multiprocessing.connection import Connection

from .process import Channel
from .sandbox import limit_resources

if __name__ == "__main__":
    channel = Channel(Connection(int(sys.argv[1])))
    order = channel.receive()[2]
    limit_resources(order["gib"], order["sandboxed"])
    importlib.import_module(sys.argv[2]).serve(channel, order)
