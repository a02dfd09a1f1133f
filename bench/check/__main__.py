"""Entry point of the process that ``check_encoding`` starts."""

import sys

from bench.sealed.child import main

from .child_process import serve

main(int(sys.argv[1]), serve)
