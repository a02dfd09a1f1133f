"""Entry point of the process that ``check_encoding`` starts."""

import json
import sys

from .child_process import main

main(int(sys.argv[1]), json.loads(sys.argv[2]))
