"""The process that loads a plugin and runs the checks. It sends each step through a pipe at once, as it may be killed."""

import resource
from typing import Any

from .supervised_process import SupervisedProcess, send

GIB = 2**30
RESERVED_GIB = 2
"""Address space that libraries reserve; the supervising process limits the memory in use."""
LARGEST_FILE = 2**26
"""Maximum size of a written file, stderr included, in bytes."""


def main(pipe: int, order: dict[str, Any]) -> None:
    set_resource_limits(order["time_limit_s"], order["memory_limit_gb"])
    from tasks import InputError

    try:
        run_all_checks(pipe, order)
    except InputError as error:
        send(pipe, "refused", text=str(error))


def set_resource_limits(seconds: float, gib: float) -> None:
    """Set limits that the system enforces even if the supervising process has died."""
    for kind, limit in (
        (resource.RLIMIT_CPU, int(seconds) + 10),
        (resource.RLIMIT_DATA, int((gib + RESERVED_GIB) * GIB)),
        (resource.RLIMIT_FSIZE, LARGEST_FILE),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (limit, limit))


def run_all_checks(pipe: int, order: dict[str, Any]) -> None:
    """Load the encoding, run every check and send the findings.

    Raises:
        InputError: the encoding cannot be loaded, or its hooks cannot be called; see ``interface.try_hooks``.
    """
    import torch

    from bench.plugins.registry import get_encoding
    from bench.plugins.source_hash import source_hash
    from bench.runs.run_one import device_name, package_versions

    from . import hook_contract, side_effects, statefulness
    from .checks import load_checks, run_check
    from .interface import try_hooks
    from .subject import Subject

    torch.set_num_threads(1)
    checks = [c for c in load_checks() if not order["only"] or c.name in order["only"]]
    harness = hook_contract.harness_functions()
    with side_effects.recorded_events() as events:
        cls = get_encoding(order["reference"])
    if order.get("sample_only"):
        send(pipe, "sample", numbers=statefulness.output_sample(Subject(cls)))
        return
    send(
        pipe,
        "encoding",
        encoding=cls.info.name,
        ranking=str(cls.info.ranking),
        source_sha256=source_hash(cls),
        versions=package_versions(),
        device=device_name(torch.device("cpu")),
        checks=[{"check": c.name, "expected": c.expected} for c in checks],
    )
    try_hooks(Subject(cls))
    send(pipe, "tried")
    sample = SampleInAnotherProcess(order) if any(c.name == "determinism" for c in checks) else None
    subject = Subject(cls, import_events=events, harness=harness, sample_elsewhere=sample)
    for check in checks:
        finding, go_on = run_check(check, subject, subject.own_files)
        send(pipe, "finding", finding=finding)
        if not go_on:
            send(pipe, "stopped")
            return


class SampleInAnotherProcess:
    """Computes the encoding's output sample in a process with another hash seed, while the first checks run here."""

    def __init__(self, order: dict[str, Any]):
        # Started in this process's group, so that both are killed together.
        environment = {"PYTHONHASHSEED": "12345"}
        self.process = SupervisedProcess("bench.check", order | {"sample_only": True}, environment=environment, own_group=False)

    def __call__(self) -> list[float]:
        with self.process as process:
            samples = [message["numbers"] for message in process.messages() if message["kind"] == "sample"]
        return samples[0] if samples else []
