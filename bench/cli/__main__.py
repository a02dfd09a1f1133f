"""``python -m bench.cli`` is ``lprime``."""

from . import main

main()
