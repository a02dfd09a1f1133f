"""Metadata that depends on where the repository is hosted: its addresses, and README.md with links that lead there.

All else is in pyproject.toml.
"""

import os
import re
import subprocess
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
RELATIVE = r"(?![a-z]+:|#)([^)\s\"]+)"


def without_relative_links(text: str, repository: str) -> str:
    """Markdown with links to files as addresses in a GitHub repository; other links, and anchors, stay.

    Arguments:
        repository: its address; if it is empty, the text of links is kept and pictures are left out.
    """

    def address(found: re.Match[str]) -> str:
        is_picture = found[2].partition("#")[0].endswith((".svg", ".png"))
        return f"{found[1]}{repository}/{'raw' if is_picture else 'blob'}/HEAD/{found[2]}"

    if repository:
        return re.sub(rf'(\]\(|(?:src|href|srcset)="){RELATIVE}', address, text)
    without_pictures = re.sub(rf'<img [^>]*src="{RELATIVE}"[^>]*>', "", text)
    return re.sub(rf"\[((?:`[^`]*`|[^\]`])*)\]\({RELATIVE}\)", r"\1", without_pictures)


def web_address(remote: str) -> str:
    """The web address of a git remote, without user and password; empty if it has none."""
    found = re.fullmatch(
        r"(?:https://(?:[^@/]*@)?|ssh://(?:[^@/]*@)?|[^@/:]+@)([\w.-]+\.\w+)(?::\d+)?[:/](.+?)(?:\.git)?/?", remote
    )
    return f"https://{found[1]}/{found[2]}" if found else ""


def repository_address() -> str:
    """Where the source is hosted: as GitHub Actions, a source distribution, or the checkout's remote ``origin`` says.

    Empty if none is known.
    """
    if repository := os.environ.get("GITHUB_REPOSITORY"):
        return f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{repository}"
    if not (ROOT / ".git").exists():
        metadata = ROOT / "PKG-INFO"  # of a source distribution
        found = metadata.exists() and re.search(r"^Project-URL: Repository, (\S+)$", metadata.read_text("utf-8"), re.MULTILINE)
        return found[1] if found else ""
    command = ["git", "-C", str(ROOT), "remote", "get-url", "origin"]
    try:
        return web_address(subprocess.run(command, capture_output=True, text=True).stdout.strip())
    except OSError:  # no git
        return ""


if __name__ == "__main__":
    repository = repository_address()
    setup(
        long_description=without_relative_links((ROOT / "README.md").read_text(encoding="utf-8"), repository),
        long_description_content_type="text/markdown",
        project_urls={
            name: f"{repository}{path}"
            for name, path in {
                "Repository": "",
                "Leaderboard": "/blob/HEAD/leaderboard/published/README.md",
                "Issues": "/issues",
                "Changelog": "/blob/HEAD/CHANGELOG.md",
            }.items()
            if repository
        },
    )
