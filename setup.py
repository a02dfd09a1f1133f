"""The package's description, README.md without links that lead nowhere outside a checkout. All else is in pyproject.toml."""

import re
import tomllib
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


if __name__ == "__main__":
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"].get("urls", {})
    repository = urls.get("Repository", urls.get("Source", "")).rstrip("/").removesuffix(".git")
    readme = without_relative_links((ROOT / "README.md").read_text(encoding="utf-8"), repository)
    setup(long_description=readme, long_description_content_type="text/markdown")
