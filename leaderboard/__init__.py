"""The leaderboard: reads the results that ``bench`` wrote and renders the board. It never trains anything."""

from pathlib import Path

PUBLISHED = Path("leaderboard/published")
"""The published board in a checkout: results, and everything that is rendered from them."""


def published_folder(folder: Path = PUBLISHED) -> Path:
    """Where to read the results of a published board: ``folder``; instead of the default, where the current folder is no
    checkout, the results that were installed with this package."""
    return folder if folder != PUBLISHED or folder.is_dir() else Path(__file__).parent / PUBLISHED.name
