"""Why the runs of a table are less comparable than they look."""

from collections.abc import Callable, Sequence

from bench.result import Result
from leaderboard.data.grid import Grid
from leaderboard.format import listed, seed_list
from leaderboard.stats.rows import Row
from tasks import plural

from .markdown import escape


def machines(runs: Sequence[Result], show: Callable[..., str] = escape) -> list[str]:
    """The devices and thread counts of runs, each once."""
    return [f"{show(device)}, {plural(threads, 'thread')}" for device, threads in sorted({(r.device, r.threads) for r in runs})]


def caution_lines(grid: Grid, rows: Sequence[Row]) -> list[str]:
    """One line for each reason why the runs of a table are less comparable than they look."""
    lines, changed = [], []
    for row in rows:
        seeds: dict[tuple[str, str], set[int]] = {}
        for run in row.runs:
            record = run.encoding
            seeds.setdefault((record.source_sha256, str(sorted(record.settings.items()))), set()).add(run.seed)
        if len(seeds) > 1:
            which = "; ".join(map(seed_list, sorted(map(sorted, seeds.values()))))
            changed.append(f"{escape(row.name)} ({which})")
    if changed:
        what = "Several versions of source or settings (a seed is in two if its tasks ran with different ones)"
        lines.append(f"{what}: {', '.join(changed)}.")
    versions = {tuple(sorted(r.versions.items())) for r in grid.all_runs}
    if len(versions) > 1:
        mixed = sorted({package for v in versions for package, _ in set(v).symmetric_difference(min(versions))})
        lines.append(f"Runs used different versions of {escape(', '.join(mixed))}.")
    if len({r.device.startswith("cpu") for r in grid.all_runs}) > 1:
        lines.append("Some runs trained in fp32 on CPU, others in bf16 on a GPU.")
    if len(devices := machines(grid.all_runs)) > 1:
        priced = all(row.name in grid.costs for row in rows if row.record)
        where = "in ms, on the pages of encodings, " if priced else ""
        lines.append(f"Step times {where}come from different machines and are not comparable: {'; '.join(devices)}.")
    if dirty := sum((run.commit or "").endswith("-dirty") for run in grid.all_runs):
        lines.append(f"The code of {dirty:,} of {plural(len(grid.all_runs), 'run')} had uncommitted changes.")
    if note := shared_gpu(grid, rows):
        lines.append(note)
    runs = [(run.device, run.encoding.name) for one in (grid, *grid.conditions.values()) for run in one.all_runs]
    if grid.conditions and (apart := apart_by_device(runs)):
        what = "Runs in the suite and under its conditions are of different processors, whose rounding differs: some of"
        lines.append(f"{what} {apart}.")
    if apart := apart_by_device([(cost.device, row.name) for row in rows if (cost := grid.costs.get(row.name))]):
        what = "Relative costs were measured on different processors, where they are not the same:"
        lines.append(f"{what} {apart}.")
    return lines


def shared_gpu(grid: Grid, rows: Sequence[Row]) -> str:
    """What to know of step times that come from runs on a GPU; empty if none does."""
    timed = {run.device for row in rows if row.name not in grid.costs for run in row.runs}
    if all(device.startswith("cpu") for device in timed):
        return ""
    return "Step times are of runs that may have shared a GPU, where they are longer by a factor that depends on the encoding."


def apart_by_device(measured: Sequence[tuple[str, str]]) -> str:
    """``a and b on X; the others on Y``; empty for a single device.

    Arguments:
        measured: a device and the name of an encoding each.
    """
    names: dict[str, set[str]] = {}
    for device, name in measured:
        names.setdefault(device, set()).add(name)
    if len(names) < 2:
        return ""
    most = max(names, key=lambda device: len(names[device]))
    others = [f"{listed(sorted(map(escape, names[d])))} on {escape(d)}" for d in sorted(names) if d != most]
    return f"{'; '.join(others)}; the others on {escape(most)}"
