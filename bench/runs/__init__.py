"""Runs of a suite's grid: where each is stored, how one is executed, and the local pool that executes many."""
