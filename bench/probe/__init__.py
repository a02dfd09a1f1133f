"""Probes: what a trained model does inside, read from outside of it, one probe per file.

``reading`` reads hidden states and attention weights, ``subject`` is a trained run, ``record`` the file of a probe's
numbers, and ``measure`` runs the probes.
"""
