"""``lprime check``: test that an encoding keeps its contract. Each named check reports expectation, finding and advice.

::

    declaration.py  info and settings
    contract.py     form of the hooks, no writes into arguments, tokens, position ids
    causality.py    no output depends on later tokens, on where a sequence ends, or on other rows of the batch
    state.py        no state between passes, equal seeds give equal numbers, the state dict is the whole state
    numbers.py      finite numbers, a gradient for every parameter, devices, cost, and a short training that learns
    unusual.py      what a maintainer should look at in the source; never a fault of an honest encoding

``run_checks.py`` runs them in a process in a sandbox (``child_process.py``), if this machine has one. A check is a function of
a ``Subject`` that returns what it found, or raises ``Fault``. The checks find mistakes. Code made to deceive them could; what
excludes cheats are sealed runs (``bench.sealed``) and a reader of the source.
"""

from .report import CheckOutcome, Report
from .run_checks import check_encoding

__all__ = ["CheckOutcome", "Report", "check_encoding"]
