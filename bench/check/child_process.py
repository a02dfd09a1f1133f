"""The work of the sandboxed process that loads a plugin and runs its checks. It sends findings one by one."""

from typing import Any

from bench.sealed.process import Channel


def serve(channel: Channel, order: dict[str, Any]) -> None:
    """Run the checks of an order, or refuse it in one line."""
    from tasks import InputError

    try:
        run_all_checks(channel, order)
    except InputError as error:
        channel.send("refused", text=str(error))


def run_all_checks(channel: Channel, order: dict[str, Any]) -> None:
    """Load the encoding, run every check and send the findings.

    Raises:
        InputError: the encoding cannot be loaded, or its hooks cannot be called; see ``interface.try_hooks``.
    """
    import torch

    from bench.plugins.registry import get_encoding
    from bench.plugins.source_hash import source_hash
    from bench.runs.devices import device_name, package_versions

    from .checks import load_checks, run_check, time_limit
    from .interface import TRY_LIMIT_S, try_hooks
    from .subject import Subject

    torch.set_num_threads(1)
    checks = [check for check in load_checks() if check.name in order["checks"]]
    cls = get_encoding(order["reference"])
    channel.send(
        "encoding",
        encoding=cls.info.name,
        ranking=str(cls.info.ranking),
        source_sha256=source_hash(cls),
        versions=package_versions(),
        device=device_name(torch.device("cpu")),
    )
    subject = Subject(cls)
    try_hooks(subject, min(TRY_LIMIT_S, order["time_limit_s"]))
    channel.send("tried")
    with time_limit(order["time_limit_s"], order["late"]):
        for check in checks:
            outcome, go_on = run_check(check, subject, subject.own_files)
            channel.send("finding", finding=outcome.model_dump())
            if not go_on:
                break
    channel.send("done")
