"""The process that loads submitted code and trains it in worker processes; its results are files."""

from pathlib import Path
from typing import Any

from bench.check.supervised_process import send


def main(pipe: int, order: dict[str, Any]) -> None:
    from bench.plugins.registry import get_encoding
    from bench.runs.pool import LocalPool
    from bench.runs.run import Run
    from bench.suites.suite import Suite
    from tasks import InputError

    try:
        name = get_encoding(order["reference"]).info.name
        if name != order["name"]:
            raise InputError(f"the source names its encoding {name!r}, the submission {order['name']!r}")
        suite = Suite.model_validate_json(order["suite"])
        pool = LocalPool(device=order["device"])
        pool.workers = order["workers"] or pool.workers
        pool.execute([Run(suite, task, name, seed) for task, seed in order["runs"]], Path(order["out"]), lambda event: None)
    except InputError as error:
        send(pipe, "refused", text=" ".join(str(error).split()))
