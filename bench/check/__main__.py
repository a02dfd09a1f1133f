"""Entry point of the process that ``check_encoding`` starts."""

import sys

from .child_process import main

main(int(sys.argv[1]))
