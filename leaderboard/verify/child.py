"""The process that loads submitted code and trains it, in the harness's own worker processes; results are files."""

import json
import sys
from pathlib import Path


def main(orders: str) -> None:
    """The process' whole life."""
    order = json.loads(Path(orders).read_text(encoding="utf-8"))
    from bench import encodings
    from bench.pool import LocalPool
    from bench.runs import Run
    from bench.suite import Suite
    from tasks import InputError

    try:
        name = encodings.get(order["encoding"]).info.name
        if name != order["name"]:
            raise InputError(f"the source names its encoding {name!r}, the submission {order['name']!r}")
        suite = Suite.model_validate_json(order["suite"])
        pool = LocalPool(device=order["device"])
        pool.workers = order["workers"] or pool.workers
        pool.execute([Run(suite, task, name, seed) for task, seed in order["runs"]], Path(order["out"]), lambda event: None)
    except InputError as error:
        sys.exit(" ".join(str(error).split()))
