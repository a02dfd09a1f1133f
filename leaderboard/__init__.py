"""The leaderboard: reads the results that ``bench`` wrote and renders the board. It never trains anything."""

from pathlib import Path

PUBLISHED = Path("leaderboard/published")
"""The published board in a checkout: results, and everything that is rendered from them."""
ARCHIVE = Path("leaderboard/archive")
"""Boards of earlier versions of suites, with their results, as last rendered: a folder each."""
