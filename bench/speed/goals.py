"""What the project asked of itself, and what was measured: the first table of the page."""

from collections.abc import Iterator, Mapping

from .record import PUBLISHED, Memory, Speed
from .tables import Table, evaluation_ratios, factor, mean, percent, step_ratios

Row = list[str]


def goals(record: Speed) -> Table:
    """One row a goal, of those that were measured."""
    rows = [row for section in (steps, evaluation, generators, overhead, memory, growth, gpu) for row in section(record)]
    if not record.gpu:
        rows.append(["GPU", "beside the libraries, packed and not", "not measured: there was none", ""])
    text = "Where tasks differ their geometric mean counts, and of these the least."
    return Table("Goals", text, ["what", "goal", "measured", "met"], rows, left=4)


def judged(what: str, goal: str, measured: str, met: bool) -> Row:
    return [what, goal, measured, "yes" if met else "**no**"]


def listed(values: Mapping[str, float], form=factor) -> str:
    return ", ".join(f"{name} {form(value)}" for name, value in values.items())


def means(found: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Over tasks."""
    return {name: mean(row.values()) for name, row in found.items()}


def steps(record: Speed) -> Iterator[Row]:
    if small := means(step_ratios(record, "small")):
        yield judged("training step at `small`", "≥ 1.5× the faster library", listed(small), min(small.values()) >= 1.5)
    if bounds := [b for b in record.bounds if b.suite == "small"]:
        shares = {name: mean(b.shares[name] for b in bounds) for name in bounds[0].shares}
        mixed = {name: mean(b.shares[name] * b.gflops / b.gflops_mixed for b in bounds) for name in shares}
        measured = f"{listed(shares, percent)} (of the products at their own rates: {listed(mixed, percent)})"
        yield judged("the same", "≥ 75 % of the machine's limit", measured, min(shares.values()) >= 0.75)
    standard = step_ratios(record, "standard")
    if cells := [(value, f"{name} on {task}") for name, row in standard.items() for task, value in row.items()]:
        worst, where = min(cells)
        yield judged("training step at `standard`", "never slower", f"least {factor(worst)} ({where})", worst >= 1)


def evaluation(record: Speed) -> Iterator[Row]:
    for batch in [*sorted({row.batch for row in record.evaluation if row.batch}), None]:
        if found := means(evaluation_ratios(record, batch)):
            what = f"exact match at L′, theirs {f'{batch} at a time' if batch else 'all in one batch'}"
            yield judged(what, "≥ 20× generate()", listed(found), min(found.values()) >= 20)


def generators(record: Speed) -> Iterator[Row]:
    if not record.generators:
        return
    for way in record.generators[0].theirs_us:
        found: dict[str, dict[str, float]] = {}
        for row in record.generators:
            found.setdefault(row.what, {})[row.task] = row.ratio(way)
        what = f"generators, plain Python by {way}" + (" (modelled on a published harness)" if way in PUBLISHED else "")
        yield judged(what, "≥ 50×", listed(means(found)), min(means(found).values()) >= 50)
    most = max(row.step_share for row in record.generators if row.step_share is not None)
    yield judged("data of a step", "< 2 %", f"at most {percent(most)}", most < 0.02)


def overhead(record: Speed) -> Iterator[Row]:
    if o := record.overhead:
        yield judged("grid overhead after imports", "< 3 %", percent(o.share), o.share < 0.03)
        yield judged("from command to first step, without imports", "< 1 s", f"{o.start_s:.2f} s", o.start_s < 1)


def memory(record: Speed) -> Iterator[Row]:
    kinds: dict[str, list[Memory]] = {}
    for row in record.memory:
        kinds.setdefault(row.what, []).append(row)
    if kinds:
        most = kinds["training"][-1].mb * 2**20 / 1e6
        yield judged("peak memory of training at `small`", "< 600 MB a worker", f"{most:,.0f} MB", most < 600)
        few, many = kinds["evaluation"]
        grown = many.mb / few.mb - 1
        what = f"evaluation memory, {few.detail} to {many.detail}"
        yield judged(what, "flat", f"{100 * grown:+.1f} %", grown < 0.05)


def gpu(record: Speed) -> Iterator[Row]:
    if g := record.gpu:
        minutes = 60 * g.suite_h
        measured = f"{minutes:,.0f} min, {g.best.at_once} runs at a time on {g.device}"
        yield judged(f"the whole of suite `{g.suite}` on a GPU", "< 30 min", measured, minutes < 30)


def growth(record: Speed) -> Iterator[Row]:
    if record.growth:
        worst = max(record.growth, key=lambda row: row.exponent)
        over = sum(row.exponent > 2 for row in record.growth)
        measured = f"{over} of {len(record.growth)}; largest exponent {worst.exponent:.2f} ({worst.encoding})"
        yield judged("encodings whose step grows faster than T²", "none", measured, not over)
