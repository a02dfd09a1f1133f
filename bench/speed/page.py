"""The page ``bench/SPEED.md`` and the terminal's output, rendered from the record."""

from tabulate import tabulate

from .goals import goals_table
from .record import Speed
from .tables import Table, all_tables, percent

METHOD = """\
One process with one thread and the allocator settings of a worker of `lprime run`, on an otherwise idle machine. The
contestants of a table take turns step by step, in an order that rotates; numbers are medians. All train on the same examples
(lengths 1 to L mixed), with the same loss over answer tokens, clipping and fused AdamW. The libraries' models have our width,
depth, heads and MLP width (Llama's SwiGLU has as many parameters as our MLP), no dropout, and the faster of their attentions;
they pad on the right to the longest example of a step and need no mask. Nothing is compiled. Steps at `standard`'s shapes
have fewer examples than in its recipe."""


def render_page(record: Speed) -> str:
    """The whole page as markdown."""
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    head = (
        f"Measured by `make speed`{' --quick: **a smoke run, its numbers mean nothing**' if record.quick else ''}, "
        f"{record.date}, on {record.device}, {record.threads} thread of {record.cores} cores; {versions}. It took "
        f"{record.took_s / 60:.1f} minutes and had {percent(record.cpu_share)} of a core."
    )
    tables = [
        part for t in [*goals_table(record), *all_tables(record)] for part in (f"## {t.title}", t.text, format_table(t, "pipe"))
    ]
    return "\n\n".join(["# Speed", head, METHOD, *tables]) + "\n"


def render_terminal(record: Speed) -> str:
    """The same tables as plain text."""
    return "\n\n".join(
        f"{table.title}\n\n{format_table(table, 'simple')}" for table in [*goals_table(record), *all_tables(record)]
    )


def format_table(table: Table, style: str) -> str:
    """``style``: tabulate's name; ``pipe`` is GitHub's markdown table."""
    align = ["left"] * table.left + ["right"] * (len(table.header) - table.left)
    colalign = align if table.rows else None
    return tabulate(table.rows, headers=list(table.header), tablefmt=style, colalign=colalign, disable_numparse=True)
