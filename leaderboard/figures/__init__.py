"""Figures of the published board: score and cost of the leaders, accuracy by length, one encoding, real text."""
