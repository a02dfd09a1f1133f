"""Results as data frames: read from run folders and from the published store, and written to it.

Frame of runs: one row per finished run, with the scalar columns ``columns.RUN``, ``versions`` (package → version), ``origin``
(``published`` or ``local``), and the columns ``columns.BY_LENGTH``, whose cells are arrays with one number per test length.
"""

from .columns import BY_LENGTH, RUN, TIDY
from .frame import Damaged, together
from .local import local_failures, read_local
from .store import published_failures, read_published

__all__ = [
    "BY_LENGTH", "RUN", "TIDY", "Damaged", "local_failures", "published_failures", "read_local", "read_published", "together",
]  # fmt: skip
