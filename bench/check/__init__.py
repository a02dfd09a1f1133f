"""``lprime check``: test that an encoding keeps its contract. Each named check reports expectation, finding and advice.

::

    here (run_checks.py)                       a process in the sandbox (child_process.py)
    source_rules, syntax_rules   judged.py     loads the plugin, tries its hooks (interface.py), runs the other checks
    learning, sealed run         judged.py     bench/sealed: two further processes, which only compute

A check is a function that returns what it found, or raises ``Fault`` or ``Undecided``. Those of hooks take a ``Subject``, which
has models of the encoding and sequences of the suites. They are decorated with
``@encoding_check(name, expected=…, advice=…)``. Those with ``@judged_check`` take a ``Judged`` and never share a process with
the plugin. All are in the modules of ``checks.MODULES``.

The checks of hooks find mistakes and shortcuts, and name the place. Code that is made to deceive them could, since it runs in
their process; what it cannot deceive are the rules for source and the judge. ``report.py`` formats the findings.
"""

from .report import CheckOutcome, Report
from .run_checks import check_encoding

__all__ = ["CheckOutcome", "Report", "check_encoding"]
