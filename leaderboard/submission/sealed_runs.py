"""Sealed runs of a submission: executors, here and on a cluster, whose runs go through the judge."""

from collections.abc import Sequence
from pathlib import Path

from bench.files import write_atomic
from bench.runs.pool import LocalPool, local_pool
from bench.runs.run import Run
from bench.sealed.request import SealedCode, SealedRequest
from tasks import InputError

from .folder import SOURCE, SubmissionFolder

SOURCES = ".submissions"
"""Folder of the submitted source below the results folder, where compute nodes see it too."""
SECONDS = 6 * 3600.0
"""Limit on each process of a run, unless the maintainer says otherwise."""


def sealed_code(found: SubmissionFolder, out: Path, seconds: float = SECONDS, unsafe: bool = False) -> SealedCode:
    """The code of a submission, copied below the results folder: the folder that was read is what runs."""
    record = found.record
    place = out.resolve() / SOURCES / record.source_sha256[:16]
    for path, content in found.sources.items():
        write_atomic(place / SOURCE / path, content)
    copied = SubmissionFolder(place, found.submission, found.sources)
    return SealedCode(copied.reference, [place / SOURCE], unsafe, seconds, encoding=record)


def refuse_other_results(runs: Sequence[Run], code: SealedCode, out: Path) -> None:
    """Refuse results of these runs that are not sealed, or are of other source.

    Raises:
        InputError: there is one.
    """
    for run in runs:
        if result := run.result(out):
            if not (result.sealed or code.unsafe):
                raise InputError(f"{run.folder(out)} has a result that is not of a sealed run; choose another --out")
            if result.encoding.source_sha256 != code.encoding.source_sha256:
                raise InputError(f"{run.folder(out)} has a result of other source; delete it, or choose another --out")


def local_executor(code: SealedCode, workers: int | None) -> LocalPool:
    """Sealed runs in processes of this machine."""
    return local_pool(workers, "cpu", request=lambda run: SealedRequest.of_run(run, code), keep_weights=())
