"""The rendered board: pages from templates, the terminal's table, and the web page.

A result reaches a page in four forms: file → frame of runs (``leaderboard.results``) → frame of rows
(``leaderboard.stats``) → template.
``columns.py`` is the one list of columns; markdown, terminal, web page and ``--json`` take titles, formats and help from it.
"""
