"""The process that ``rerun.py`` starts."""

import json
import sys

from .child_process import main

if __name__ == "__main__":  # its worker processes import this module too
    main(int(sys.argv[1]), json.loads(sys.argv[2]))
