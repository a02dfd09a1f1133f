"""``lprime check``: property tests of an encoding or a task. Each named check reports what is expected, what was found and,
where the mistake is common, what to do.

::

    contract.py   info and settings; form of the hooks, no writes into arguments; what is declared of tokens
    causality.py  no output depends on later tokens, on where a sequence ends, or on other rows of the batch
    state.py      no state between passes, numbers drawn from at.generator alone, the state dict is the whole state
    numbers.py    finite numbers, a gradient for every parameter, devices
    task_rules.py  of a task: equal streams, sizes, answers, chance, tests that occur in training

``run_checks.py`` runs them in a process in a sandbox, if this machine has one. A check is a function of a ``Subject`` that
returns what it found, or raises ``Fault``. The checks find mistakes. Code made to deceive them could; what excludes cheats are
sealed runs (``bench.sealed``) and a reader of the source.
"""

from .checks import CheckOutcome, Report
from .run_checks import check_encoding

__all__ = ["CheckOutcome", "Report", "check_encoding"]
