"""``python -m lprime`` is ``lprime``, which does not search the current folder: it may have a ``bench.py``."""

import os
import sys

from lprime import ROOT
from lprime.cli import main

if sys.path[0] == os.getcwd() != ROOT:
    del sys.path[0]  # workers inherit this

main()
