"""What the HTML pages share: templates from ``web``, the style with both themes, markdown, and the content security policy."""

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from importlib import resources

from leaderboard.figures.theme import DARK, LIGHT, Theme

GENERATOR = "lprime board"
"""Marks a page as written by lprime."""


def markdown_to_html(text: str, link: Callable[[str], str] = lambda target: target) -> str:
    """HTML of the board's own markdown, where all text from results is escaped already; raw HTML in it stays text.

    Arguments:
        link: maps the target of each link.
    """
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(text)
    for token in (child for each in tokens for child in each.children or ()):
        if token.type == "link_open":
            token.attrSet("href", link(str(token.attrGet("href"))))
    return parser.renderer.render(tokens, parser.options, {})


def web_file(name: str) -> str:
    return resources.files(__package__).joinpath("web", name).read_text(encoding="utf-8")


def content_security_policy(*scripts: str) -> str:
    """A policy that allows these scripts and nothing else. Inline styles stay allowed: the bars need them."""
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    rules = ["default-src 'none'", "script-src " + " ".join(f"'sha256-{value}'" for value in hashes)]
    return "; ".join([*rules, "style-src 'unsafe-inline'", "img-src data:", "base-uri 'none'", "form-action 'none'"])


def page_style() -> str:
    """The style, with both themes: the system's preference applies unless the page's own switch overrides it."""
    dark = css_properties(DARK)
    return (
        f":root {{ {css_properties(LIGHT)} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root:not([data-theme=light]) {{ {dark} }} }}\n"
        f":root[data-theme=dark] {{ {dark} }}\n"
        f"{web_file('style.css')}"
    )


def css_properties(theme: Theme) -> str:
    roles = {name: getattr(theme, name) for name in ("background", "text", "muted", "grid", "grey", "shade")}
    roles |= {f"line-{i}": colour for i, colour in enumerate(theme.colours)} | {"heat": theme.heat[2]}
    return f"color-scheme: {theme.name}; " + " ".join(f"--{role}: {value};" for role, value in roles.items())


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """Replace every ``{{name}}`` once; inserted text is not searched again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], template)
