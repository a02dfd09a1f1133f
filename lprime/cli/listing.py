"""``lprime list``: list encodings, tasks and suites."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Json, print_json

if TYPE_CHECKING:
    from bench.suites.suite import Suite

KINDS = ("encodings", "tasks", "suites")


def listing(
    kind: Annotated[str | None, typer.Argument(metavar="encodings|tasks|suites", help="One kind [default: all].")] = None,
    as_json: Json = False,
) -> None:
    """List encodings, tasks and suites."""
    from tasks import unknown

    if kind is not None and kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    kinds = [kind] if kind else list(KINDS)
    if as_json:
        return print_json([item for k in kinds for item in describe(k)])
    from tabulate import tabulate

    columns: dict[str, tuple[str, ...]] = {
        "encodings": ("name", "family", "year", "source", "hooks", "parameters"),
        "tasks": ("name", "length"),
        "suites": ("name", "version", "about"),
    }
    for k in kinds:
        items = describe(k)
        names = columns[k] + (("distribution",) if any("distribution" in item for item in items) else ())
        rows = [[", ".join(v) if isinstance(v := item.get(c, ""), list) else v for c in names] for item in items]
        widths = [None] * (len(names) - 1) + [80]
        print(tabulate(rows, headers=[k[:-1], *names[1:]], tablefmt="simple", maxcolwidths=widths))
        print()


def describe(kind: str, name: str | None = None) -> list[dict[str, Any]]:
    """All encodings, tasks or suites, or only those of one name, as plain data."""

    def wanted(one: str) -> bool:
        return name in (None, one)

    if kind == "tasks":
        import tasks

        return [
            {"name": t.name, "kind": "task", "title": t.title, "variants": dict(t.variants), "length": t.length_is}
            for t in tasks.catalogue().values()
            if wanted(t.name)
        ]
    if kind == "suites":
        from bench.suites.suite import load_suite, shipped

        return [describe_suite(load_suite(one)) for one in filter(wanted, shipped())]
    from bench import encodings
    from bench.plugins import registry

    built_in, installed = encodings.catalogue(), registry.entry_points()
    # Plugins of installed packages are not loaded: their code does not run.
    plugins = [
        {"name": one, "kind": "encoding", "distribution": registry.distributions(one)} for one in filter(wanted, installed)
    ]
    return [describe_encoding(built_in[one]) for one in filter(wanted, built_in)] + plugins


def describe_suite(suite: "Suite") -> dict[str, Any]:
    """A suite or one of its conditions, as plain data."""
    tasks = [f"{t.task} {t.variant}, L {t.train_length}, L′ {suite.longest(t.task)}" for t in suite.tasks]
    changes = [", ".join(f"{key} {value}" for key, value in t.recipe.items()) for t in suite.tasks]
    return {
        "name": suite.name,
        "kind": "suite",
        "version": suite.version,
        "fingerprint": suite.fingerprint,
        "about": suite.about,
        "tasks": [f"{task}; {own}" if own else task for task, own in zip(tasks, changes, strict=True)],
        "test_examples": suite.test_examples,
        "test_seed": suite.test_seed,
        "encodings": suite.encodings,
        "seeds": suite.seeds,
        "model": suite.model.model_dump(),
        "recipe": suite.recipe.model_dump(),
        "conditions": list(suite.conditions),
    }


def describe_encoding(cls) -> dict[str, Any]:
    """The info of an encoding, with its hooks, settings and parameters, as plain data."""
    from dataclasses import asdict

    from bench import encodings
    from bench.measure.measure import extra_parameters
    from bench.plugins.loading import one_line_errors

    with one_line_errors(cls):
        derived = {"hooks": encodings.hooks(cls), "settings": encodings.settings(cls), "parameters": extra_parameters(cls)}
    return asdict(cls.info) | {"kind": "encoding"} | derived
