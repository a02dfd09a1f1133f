"""Statistics of the board: from the frame of runs to a frame with one row per encoding. Nothing here is formatted.

::

    scores.py       score of each run: exact match beyond L, chance-corrected, averaged over log length
    rates.py        which learning rate counts, for each encoding, task and seed
    ranks.py        blocks: intervals, a test of all pairs, rank intervals, P(first) under random weights of tasks
    rows.py         the frame of rows
    reliability.py  how far the order can be trusted, for each suite
    transfer.py     bits per character on real text, and the comparison of synthetic tasks with it
"""
