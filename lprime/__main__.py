"""``python -m lprime`` is ``lprime``."""

from lprime.cli import main

main()
