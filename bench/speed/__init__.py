"""``make speed``: how fast training, evaluation, generators and grid are, beside what people would use instead.

Not part of ``lprime``: it needs the development tools, among them the two libraries it measures. Run it as
``python -m bench.speed`` on an idle machine. Each section is a file; ``ours.py`` holds every call into our own training.
"""
