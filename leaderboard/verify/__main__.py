"""The process of ``child.py``; started by ``again.py``, which reads its results."""

import sys

from .child import main

if __name__ == "__main__":  # its workers load this module too
    main(sys.argv[1])
