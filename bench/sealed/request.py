"""Sealed runs as requests to a worker, which stores their results like results of other runs.

A sealed run has no checkpoints; if it is interrupted, it starts again.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench.result import Result
from bench.runs.run import Run
from bench.runs.worker import RunRequest

from .sandbox import SealedCode


@dataclass(frozen=True)
class SealedRequest(RunRequest):
    """A request for a sealed run."""

    code: SealedCode = field(kw_only=True)

    @classmethod
    def of_run(cls, run: Run, code: SealedCode) -> "SealedRequest":
        return cls(run.suite.model_dump_json(), *run.key, code=code)

    def execute(self, out: Path, device: str, checkpoint_every_s: float, should_stop: Callable[[], bool]) -> Result:
        """See ``RunRequest.execute``."""
        from bench.encodings import Stage
        from bench.runs.run_one import finish
        from bench.training.train import stage_steps

        from .run import run_sealed

        run, share = self.run(), self.code.encoding.stage_share
        stage = Stage(share) if share else None
        return finish(run, out, run.steps + stage_steps(run.recipe, stage), should_stop, partial(run_sealed, run, self.code))
