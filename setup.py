"""The package's description, README.md with absolute links. Everything else is in pyproject.toml."""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent


def absolute_links(text: str, repository: str) -> str:
    """Markdown and HTML with links to files as addresses in a GitHub repository; others, and anchors, stay.

    Arguments:
        repository: its address; links stay relative if it is empty.
    """
    target = r"(?![a-z]+:|#|/)([^)\s\"]+)"

    def address(found: re.Match[str]) -> str:
        is_picture = found[2].partition("#")[0].endswith((".svg", ".png"))
        return f"{found[1]}{repository}/{'raw' if is_picture else 'blob'}/HEAD/{found[2]}"

    return re.sub(rf'(\]\(|(?:src|href|srcset)="){target}', address, text) if repository else text


if __name__ == "__main__":
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"].get("urls", {})
    repository = urls.get("Repository", urls.get("Source", "")).rstrip("/").removesuffix(".git")
    readme = absolute_links((ROOT / "README.md").read_text(encoding="utf-8"), repository)
    setup(long_description=readme, long_description_content_type="text/markdown")
