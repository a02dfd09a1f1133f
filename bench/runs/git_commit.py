"""The git commit of the running code, if it runs from a checkout."""

import os
import subprocess
from functools import cache
from pathlib import Path

CODE = ("bench", "tasks", "pyproject.toml", "constraints.txt")
"""Paths that can change a run's numbers; excludes results and boards, which change while a grid is running."""


@cache
def current_commit() -> str | None:
    """The checkout's commit, with suffix ``-dirty`` if ``CODE`` was modified; None outside of a checkout.

    The environment variable ``LPRIME_COMMIT`` replaces it: for a copy of the code without its history, as in a container.

    Cached at the first run of the process: modules already imported do not follow later commits.
    """
    return os.environ.get("LPRIME_COMMIT") or commit_of(Path(__file__).resolve().parents[2])


def commit_of(root: Path) -> str | None:
    """The commit of the checkout at ``root``, as for ``current_commit``; None if no repository tracks the code there."""
    # The code must be tracked: an installed package may merely be inside somebody's repository.
    if git(root, "ls-files", "--error-unmatch", "bench/__init__.py") is None:
        return None
    head, changes = git(root, "rev-parse", "HEAD"), git(root, "status", "--porcelain", "--", *CODE)
    if not head or changes is None:
        return None
    return head + ("-dirty" if changes else "")


def git(root: Path, *arguments: str) -> str | None:
    """Output of a git command; None if it fails or git is not installed."""
    # In a git hook GIT_DIR and the like point to another repository. Optional locks could make a concurrent commit fail.
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")} | {"GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(["git", *arguments], cwd=root, env=env, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
