"""Which commit the code at work came from, where it runs from a checkout."""

import os
import subprocess
from functools import cache
from pathlib import Path

CODE = ("bench", "tasks", "pyproject.toml", "constraints.txt")
"""What a run's numbers can hang on. Results and boards, which change while runs go on, are not among it."""


@cache
def commit() -> str | None:
    """The checkout's commit, with ``-dirty`` behind it where ``CODE`` differs from it; None outside of a checkout.

    Looked up once a process, at the start of its first run: what was imported does not follow later commits.
    """
    return commit_of(Path(__file__).resolve().parents[1])


def commit_of(root: Path) -> str | None:
    """The commit of the checkout at ``root``, as ``commit`` gives it; None where ``root``'s code is in no repository."""
    # Tracked there, and not merely lying inside of somebody's repository, as an installed package may.
    if git(root, "ls-files", "--error-unmatch", "bench/__init__.py") is None:
        return None
    head, changes = git(root, "rev-parse", "HEAD"), git(root, "status", "--porcelain", "--", *CODE)
    if not head or changes is None:
        return None
    return head + ("-dirty" if changes else "")


def git(root: Path, *arguments: str) -> str | None:
    """What git prints; None where it fails or is not there."""
    # A hook's own GIT_DIR and the like would point elsewhere; and no lock may be taken that a commit could stumble over.
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")} | {"GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(["git", *arguments], cwd=root, env=env, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
