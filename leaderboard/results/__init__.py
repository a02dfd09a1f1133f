"""Results as data frames: read from run folders and from the published store, and written to it.

Frame of runs: one row per finished run, with the scalar columns ``columns.RUN``, ``versions`` (package → version), ``origin``
(``published`` or ``local``), and the columns ``columns.BY_LENGTH``, whose cells are arrays with one number per test length.
"""
