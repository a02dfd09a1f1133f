"""``make speed``: speed and memory of training, evaluation and the grid, next to x-transformers and Hugging Face transformers.

Not part of the wheel: it needs the development tools, including the two libraries it compares with. Run it as
``python -m bench.speed`` on an idle machine. Each section is a file; ``trainee.py`` wraps our training,
``libraries.py`` theirs.
"""
