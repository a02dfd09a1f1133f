"""``lprime check``: is this encoding one? Named checks, each with what was expected, what was found and what to do about it.

::

    run.py        starts a process of its own for the plugin, watches its time and memory, gathers what it tells
    child.py      that process: loads the plugin and goes through the checks
    subject.py    what is checked: models of the encoding, and sequences of the suites
    report.py     findings as text, JSON and markdown
    declared.py, sight.py, batches.py, state.py, touch.py, outside.py, numbers.py, training.py      the checks, by kind
    words.py, source.py      what words and source of a submission may hold; leaderboard/verify asks them too

It tells mistakes and shortcuts, not malice: a plugin's code runs in the process that judges it. Nobody should run a stranger's
plugin, under ``check`` or otherwise, where there is something to steal.
"""

from .report import Finding, Report
from .run import check

__all__ = ["Finding", "Report", "check"]
