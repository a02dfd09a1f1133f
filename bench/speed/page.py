"""The page ``bench/SPEED.md`` and what the terminal shows, from the record alone."""

from tabulate import tabulate

from .goals import goals
from .record import Speed
from .tables import Table, all_tables, percent

METHOD = """\
One run, one thread, nothing else at work. Contestants of one table take turns step by step, in an order that moves on by
one each round, so that drift meets all alike; numbers are medians. Everybody trains on the very same examples (lengths 1 to
L mixed), with the same loss over answer tokens, clipping and fused AdamW. The libraries' models have our width, depth,
heads and MLP width (Llama's SwiGLU one of equal parameter count), no dropout, and the faster of their attentions; they pad
to the longest example of a step, on the right, where causal attention needs no mask. Nothing is compiled. Steps at
`standard`'s shapes have fewer examples than its recipe says, so that the run stays short. On a GPU our steps are recorded as
CUDA graphs, the libraries' are not, and none is given cuDNN's attention (`bench/model.py` says why)."""


def page(record: Speed) -> str:
    """The whole page, markdown."""
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    parts = [
        "# Speed",
        f"Made by `make speed`{' --quick: **a smoke run, its numbers mean nothing**' if record.quick else ''}, {record.date}: "
        f"{record.device}, {record.threads} thread of {record.cores} cores; {versions}. It took {record.took_s / 60:.1f} "
        f"minutes; {percent(record.cpu_share)} of a core was ours. It leaves the numbers behind the tables in "
        "`runs/speed.json`."
        + "".join(f" Section {name} was measured again by itself, {date}." for name, date in record.renewed.items()),
        METHOD,
        *markdown(goals(record)),
        *(part for table in all_tables(record) for part in markdown(table)),
    ]
    return "\n\n".join(parts) + "\n"


def markdown(table: Table) -> list[str]:
    # ``pipe`` is tabulate's name for GitHub's table with its alignment row.
    return [f"## {table.title}", table.text, grid(table, "pipe")]


def terminal(record: Speed) -> str:
    """The same tables as plain text."""
    tables = [*all_tables(record), goals(record)]
    return "\n\n".join(f"{table.title}\n\n{grid(table, 'simple')}" for table in tables)


def grid(table: Table, kind: str) -> str:
    align = ["left"] * table.left + ["right"] * (len(table.header) - table.left)
    colalign = align if table.rows else None
    return tabulate(table.rows, headers=list(table.header), tablefmt=kind, colalign=colalign, disable_numparse=True)
