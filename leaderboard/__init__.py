"""The leaderboard: reads the results that ``bench`` wrote and renders the board. It never trains anything."""

from pathlib import Path

PUBLISHED = Path("leaderboard/published")
"""The published board in a checkout: results, and everything that is rendered from them."""
ARCHIVE = Path("leaderboard/archive")
"""Boards of earlier versions of suites, with their results, as last rendered: a folder each."""


def archived_boards(board: Path) -> list[Path]:
    """Folders of the archived boards next to a board, sorted."""
    return sorted(path.parent for path in (board.parent / ARCHIVE.name).glob("*/results"))


def published_folder(folder: Path = PUBLISHED) -> Path:
    """Where to read the results of a published board: ``folder``; instead of the default, where the current folder is no
    checkout, the results that were installed with this package."""
    return folder if folder != PUBLISHED or folder.is_dir() else Path(__file__).parent / PUBLISHED.name
