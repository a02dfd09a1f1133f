"""Probes: what a trained model does inside, read from outside of it: the model's own code knows nothing of them.

``subject`` is a trained run, ``record`` the file of a probe's numbers. ``attention`` and ``position`` hold the probes, and
``measure`` runs them.
"""
