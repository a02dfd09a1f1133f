"""Sealed runs as requests to a worker, which stores their results like those of other runs.

The worker trains and judges, and the code runs in a sandbox: see ``bench.sealed``. A sealed run has no checkpoints; if it is
interrupted, it starts again.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field

from bench.result import EncodingRecord, Record, Result, Timings
from bench.runs.run import Run, now
from bench.runs.worker import RunRequest
from tasks import InputError


class SealedCode(Record):
    """Submitted code, and what its submission says of it."""

    folder: str
    """Folder of the source, which the sandbox shows; compute nodes must see it too."""
    reference: str
    """As for ``lprime run --encoding``."""
    path: list[str]
    """Folders to search for modules before all others."""
    encoding: EncodingRecord
    seconds: Annotated[float, Field(gt=0)]
    """Limit on the time of each process of a run."""
    expected_s: Annotated[float, Field(ge=0)] = 0.0
    """Longest time that a run took its submitter; 0 if it is unknown."""
    unsafe: bool = False
    """Run without a sandbox; then the result is not marked as sealed."""


@dataclass(frozen=True)
class SealedRequest(RunRequest):
    """A request for a sealed run."""

    code: SealedCode = field(kw_only=True)

    @classmethod
    def of_run(cls, run: Run, code: SealedCode) -> "SealedRequest":
        return cls(run.suite.model_dump_json(), *run.key, code=code)

    def execute(
        self,
        out: Path,
        device: str,
        checkpoint_every_s: float,
        report: Callable[[int], None],
        should_stop: Callable[[], bool],
    ) -> Result:
        """See ``RunRequest.execute``."""
        from bench.encodings import Stage
        from bench.runs.run_one import finish
        from bench.runs.run_training import REPORT_EVERY_S
        from bench.training.train import Stopped, stage_steps

        run, said = self.run(), 0.0

        def make(beat: Callable[[int], None]) -> Result:
            def report_step(number: int) -> None:
                nonlocal said
                if should_stop():
                    raise Stopped
                if time.monotonic() > said + REPORT_EVERY_S:
                    said = time.monotonic()
                    beat(number)

            return sealed_result(run, self.code, report_step)

        share = self.code.encoding.stage_share
        stage = Stage(share) if share else None
        return finish(run, out, run.steps + stage_steps(run.recipe, stage), report, make)


def sealed_result(run: Run, sealed: SealedCode, report: Callable[[int], None]) -> Result:
    """The result of one sealed run. Times include the messages between the processes, so there is no step time.

    Raises:
        InputError: the code failed or broke the protocol, or the audit found a fault; or there is no sandbox.
    """
    import torch

    from bench.runs.devices import device_name, package_versions
    from bench.runs.git_commit import current_commit

    from .process import Code, SealedError
    from .run import run_sealed

    started, start = now(), time.monotonic()
    folder, ranking = Path(sealed.folder), sealed.encoding.ranking
    code = Code(sealed.reference, [folder], sealed.path, sealed.unsafe, sealed.seconds, ranking=ranking)
    try:
        found = run_sealed(run, code, report)
    except SealedError as error:
        raise InputError(f"no result: {error}") from None
    if found.audit:
        raise InputError(f"the audit of the sealed run failed: {'; '.join(found.audit)}")
    return Result(
        **run.identity,
        sealed=not sealed.unsafe,
        encoding=sealed.encoding,
        timings=Timings(
            step_ms=0,  # would include the messages
            train_s=round(found.train_s, 3),
            evaluate_s=round(found.evaluate_s, 3),
            total_s=round(time.monotonic() - start, 3),
        ),
        data_hash=run.recipe_suite.data_hash(run.task),
        versions=package_versions(),
        device=device_name(torch.device("cpu")),
        threads=torch.get_num_threads(),
        started=started,
        finished=now(),
        commit=current_commit(),
        **found.outcome(),
    )
