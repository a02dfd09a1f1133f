"""The documentation site: pages of the repository, and the API from docstrings. `make site` builds it next to the board."""

import posixpath
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from setup import repository_address  # noqa: E402

project, author = "lprime", "The lprime authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme, html_title = "furo", "lprime"
html_show_copyright = False
exclude_patterns = ["_build"]
html_extra_path = ["../leaderboard/published/images/small/overview.svg"]
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
suppress_warnings = ["myst.xref_missing", "myst.header"]  # anchors within pages of which a part is shown
PAGES = {
    "start.md": ("README.md", "## Getting started", "## How to cite"),
    "board.md": ("leaderboard/README.md", "", "\0"),
    "encodings.md": ("CONTRIBUTING.md", "## Your own encoding", "## Layout"),
    "grids.md": ("slurm/README.md", "", "\0"),
    "rules.md": ("leaderboard/RULES.md", "", "\0"),
    "verdict.md": ("README.md", "<!-- verdict -->", "<!-- end of verdict -->"),
}
"""Page → file of the repository, and where the part that it shows begins and ends."""


def part(file: str, start: str, end: str) -> str:
    """A part of a markdown file, with links to files as addresses in the repository."""
    text = (ROOT / file).read_text(encoding="utf-8")
    text = text[text.index(start) :].partition(end)[0]
    repository, folder = repository_address(), posixpath.dirname(file)

    def address(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, found[2]))
        return f"[{found[1]}]({repository}/blob/HEAD/{path})" if repository else found[1]

    text = re.sub(r"\[((?:`[^`]*`|[^\]`])*)\]\((?![a-z]+:|#)([^)\s]+)\)", address, text)
    text = re.sub(r'src="[^"]*/', 'src="', text)
    return text.removeprefix("#") if start.startswith("##") else text


for page, source in PAGES.items():
    target = Path(__file__).parent / "parts" / page
    target.parent.mkdir(exist_ok=True)
    target.write_text(part(*source), encoding="utf-8")
