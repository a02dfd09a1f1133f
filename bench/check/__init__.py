"""``lprime check``: test that an encoding keeps its contract. Each named check reports expectation, finding and advice.

A check is a function that takes a ``Subject`` (models of the encoding, sequences of the suites) and returns what it found, or
raises ``Fault`` or ``Undecided``. To add one, decorate it with ``@encoding_check(name, expected=…, advice=…)`` in one of the
modules listed in ``checks.MODULES``; checks run in the order of that list and of their files.

``check_encoding`` (``run_checks.py``) starts ``python -m bench.check`` as a ``SupervisedProcess``, which has limits on time and
memory. In it, ``child_process.py`` loads the plugin, tries its hooks (``interface.try_hooks``), runs every check up to the
first exception and sends each finding through a pipe. ``report.py`` formats the findings. ``source_rules.py`` and
``bench/text_rules.py`` are also used by ``leaderboard/submission/verify``.

Checks detect mistakes and shortcuts, not malice: a plugin's code runs in the process that checks it. Never run an untrusted
plugin, under ``check`` or otherwise, on a machine with private data.
"""

from .report import Finding, Report
from .run_checks import check_encoding

__all__ = ["Finding", "Report", "check_encoding"]
