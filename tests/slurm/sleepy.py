"""An encoding whose runs take at least 0.02 seconds a step in a job, however fast the node, and their usual time elsewhere."""

import os
import time

from bench.encodings import Encoding, Info


class Sleepy(Encoding):
    info = Info(
        name="sleepy", family="test", title="A test", authors="Nobody", year=2026, link="https://example.org",
        formula="q·k", past="a test", provenance="a test", shift_invariant=True,
    )  # fmt: skip

    def embed(self, x, at):
        time.sleep(0.02 * ("SLURM_JOB_ID" in os.environ))
        return x
