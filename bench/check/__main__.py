"""The process of ``child.py``; started by ``run.py``, which reads its pipe."""

import sys

from .child import main

main(int(sys.argv[1]), sys.argv[2])
