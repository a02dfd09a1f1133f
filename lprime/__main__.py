"""The command ``lprime``. As ``python -m lprime`` it does not search the current folder: it may have a ``bench.py``."""

import os
import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the command starts, Ctrl-C ends it without a traceback

from lprime import ROOT
from lprime.cli import main

if __name__ == "__main__":
    if sys.path[0] == os.getcwd() != ROOT:
        del sys.path[0]  # workers inherit this
    main()
