"""Benchmarks of the launcher; not part of the wheel."""
