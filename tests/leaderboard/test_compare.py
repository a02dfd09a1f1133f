"""Comparison of two encodings: numbers against scipy and closed forms, and the text on a terminal."""

import io
import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from synthetic_results import failure, full, record, result, suite, timings

from leaderboard.data.grid import RelativeCost, build_grids
from leaderboard.render import compare_text
from leaderboard.stats.compare import EncodingComparison, compare_encodings, welch
from tasks import InputError

GOOD, BAD = (1, 1, 0.9, 0.8), (1, 1, 0.5, 0.1)
HOSTILE = ["[red]x[/red]", "a|b<c>", "位置" * 30, "\x1b[31mred", "rope\nrope", ":smile:", "x" * 300]


def grids(**curves):
    of = suite()
    return build_grids(of, full(of, curves), {})


def shown(comparison: EncodingComparison, width: int = 80, encoding: str = "utf-8", **how) -> str:
    raw = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace", newline="")
    compare_text.print_comparison(comparison, Console(file=raw, width=width, **how))
    raw.flush()
    return raw.buffer.getvalue().decode(encoding)


def test_welch():
    # Three runs each, with sample variances 0.01 and 0.04.
    x, y = np.array([0.4, 0.5, 0.6]), np.array([0.1, 0.3, 0.5])
    freedom = (0.05 / 3) ** 2 / ((0.01 / 3) ** 2 / 2 + (0.04 / 3) ** 2 / 2)
    half = scipy.stats.t.ppf(0.975, freedom) * (0.05 / 3) ** 0.5
    assert welch(x, y) == (pytest.approx(0.2), pytest.approx(half))
    assert welch(np.array([0.5, 0.5]), np.array([0.2, 0.2, 0.2])) == (pytest.approx(0.3), 0)
    assert welch(np.array([0.5]), np.array([0.2, 0.4])) == (pytest.approx(0.2), None)


def test_numbers_of_complete_separation():
    found = compare_encodings(grids(nope=BAD, rope=GOOD), "rope", "nope")
    assert [d.column.task for d in found.by_task] == ["parity", "sorting"]
    for duel in found.by_task:
        assert duel.difference[1] == pytest.approx(0, abs=1e-12) and duel.improvement == 1
    assert found.p == found.a.ps["nope"] == pytest.approx(1 / 10_001)
    assert (found.improvement, found.interval) == (1, (1, 1))
    first = np.log2(1.5)  # weight of 1.5 L
    parity = 0.8 * first + 0.6 * (1 - first)  # against 0 and less
    sorting = 0.4 * first + 0.7 * (1 - first)  # 6! and more: chance is next to nothing
    assert [duel.difference[0] for duel in found.by_task] == pytest.approx([parity, sorting], abs=0.01)
    assert found.difference == pytest.approx((parity + sorting) / 2, abs=0.01)


curves = st.lists(st.tuples(*[st.integers(0, 4).map(lambda n: n / 4)] * 4), min_size=6, max_size=6)


@settings(max_examples=15)
@given(curves, curves)
def test_swapping_the_encodings_mirrors_the_numbers(ours, theirs):
    of = suite()
    runs = [
        result(of, task.task, name, seed, exact)
        for name, all_ in (("rope", ours), ("nope", theirs))
        for (task, seed), exact in zip([(t, s) for t in of.tasks for s in of.seeds], all_, strict=True)
    ]
    forward = compare_encodings(build_grids(of, runs, {}), "rope", "nope")
    back = compare_encodings(build_grids(of, runs, {}), "nope", "rope")
    assert back.p == pytest.approx(forward.p)
    assert back.difference == pytest.approx(-forward.difference)
    assert back.improvement == pytest.approx(1 - forward.improvement)
    assert (back.a.name, back.b.name) == (forward.b.name, forward.a.name)
    for one, other in zip(forward.by_task, back.by_task, strict=True):
        assert other.difference == pytest.approx((-one.difference[0], one.difference[1]))
        u = scipy.stats.mannwhitneyu(one.a.scores, one.b.scores).statistic
        assert one.improvement == pytest.approx(u / 9)


def test_only_common_tasks_count_in_the_verdict():
    of = suite()
    runs = full(of, {"nope": BAD, "rope": GOOD})
    found = compare_encodings(
        build_grids(of, [r for r in runs if (r.task, r.encoding.name) != ("sorting", "rope")], {}), "rope", "nope"
    )
    parity, sorting = found.by_task
    assert (sorting.difference, sorting.improvement, found.p) == (None, None, None)
    assert found.common == [parity]
    text = " ".join(shown(found).split())
    assert "over the 1 of 2 tasks that both have run" in text
    assert "missing: rope on sorting (seeds 0, 1, 2)" in text
    assert "A missing" in text
    assert "score incomplete" in text and "not tested: that needs several runs of both on every task" in text


def test_no_common_task():
    of = suite()
    runs = [result(of, "parity", "rope"), result(of, "sorting", "nope")]
    found = compare_encodings(build_grids(of, runs, {}), "rope", "nope")
    assert (found.p, found.improvement, found.interval, found.difference) == (None, None, None, None)
    assert "no task on which both have a run" in shown(found)


def test_results_of_different_fingerprints_are_never_compared():
    """``rope`` has runs of today's suite and of an older one, ``nope`` of the older one alone."""
    of = suite()
    now = full(of, {"rope": GOOD})
    before = full(of, {"rope": BAD, "nope": BAD}, fingerprint="0123456789abcdef", suite_version=1)
    oldest = full(of, {"rope": GOOD, "nope": BAD}, fingerprint="00", finished="2020")
    of_others = full(of, {"t5": GOOD}, fingerprint="11")
    found = compare_encodings(build_grids(of, [*now, *before, *oldest, *of_others], {}), "rope", "nope")
    assert found.grid.fingerprint == "0123456789abcdef"
    assert found.difference == 0, "the better runs of today are left out"
    text = " ".join(shown(found).split())
    assert f"the suite is now at version 1, fingerprint {of.fingerprint}, without runs of both" in text
    assert f"do not compare: 6 runs of version 1, fingerprint {of.fingerprint}" in text
    assert "do not compare: 12 runs of version 1, fingerprint 00" in text
    assert "fingerprint 11" not in text, "it has nothing to do with these two"
    with pytest.raises(InputError, match=f"no fingerprint of suite tiny has results of both.*'rope' only of {of.fingerprint}"):
        compare_encodings(build_grids(of, [*now, *before[6:]], {}), "rope", "nope")


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ("rpoe", "nope", "unknown encoding with results on suite tiny 'rpoe'; did you mean 'rope'?"),
        (
            "nope",
            "rope(base=1)",
            "'rope.base=1.' has no results on suite tiny; run `lprime run tiny.yaml --encoding 'rope.base=1.0.'` ",
        ),
        ("nope", "alibi", "'alibi' has no results on suite tiny; run `lprime run tiny.yaml --encoding alibi` first"),
        ("rope", "rope", "expected two different encodings, got 'rope' twice"),
        ("rope", "rope(base=10000)", "expected two different encodings, got 'rope' twice"),
    ],
)
def test_names_that_cannot_be_compared(a, b, message):
    with pytest.raises(InputError, match=message):
        compare_encodings(grids(nope=BAD, rope=GOOD), a, b)


def test_another_spelling_of_a_name_finds_its_results():
    found = compare_encodings(grids(**{"rope(base=500000.0)": GOOD, "nope": BAD}), "rope(base=5e5)", "nope")
    assert found.a.name == "rope(base=500000.0)"


def curve_lines(text: str, task: str) -> list[str]:
    """The lines of one task's curve, after its title."""
    lines = text.split("Exact match by length")[1].splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"{task}, L = "))
    return lines[start + 1 : next(i for i in range(start, len(lines)) if not lines[i].strip())]


def test_the_curve_shows_every_number_under_a_bar_of_its_height():
    text = shown(compare_encodings(grids(rope=(1, 0.94, 0.5, 0.125), nope=(1, 0.93, 0.06, 0)), "rope", "nope"))
    lengths, bars_a, a, bars_b, b = curve_lines(text, "sorting")
    assert lengths.split() == ["3", "6", "│", "9", "12"], "the rule marks L = 6"
    assert a.split() == ["1.00", ".94", "│", ".50", ".12"]
    assert b.split() == ["1.00", ".93", "│", ".06", ".00"]
    assert bars_a.split() == ["A", "████", "████", "│", "▄▄▄▄", "▁▁▁▁"]
    assert bars_b.split() == ["B", "████", "▇▇▇▇", "│"], ".06 is under half of an eighth"
    assert len({line.index("│") for line in (lengths, bars_a, a, bars_b, b)}) == 1


def test_a_curve_too_wide_continues_below():
    of = suite(test_at=[0.5, *range(1, 30)])
    curve = [n / 29 for n in range(30)]
    found = compare_encodings(build_grids(of, full(of, {"rope": curve, "nope": curve[::-1]}), {}), "rope", "nope")
    lines = curve_lines(shown(found, width=60), "sorting")
    assert len(lines) == 15
    numbers = [x for line in lines[2::5] for x in line.replace("│", "").split()]
    assert numbers == [f"{x:.2f}".removeprefix("0") for x in curve]
    lengths = [int(x) for line in lines[::5] for x in line.replace("│", "").split()]
    assert lengths == of.test_lengths("sorting")


def test_numbers_of_the_tables():
    of = suite()
    runs = [result(of, t.task, "rope", s, (1, 0.8, 0.5 + s / 10, 0.3)) for t in of.tasks for s in of.seeds]
    runs += [result(of, t.task, "nope", s, (1, 1, 0.2, 0.1), timings=timings(5 + s)) for t in of.tasks for s in of.seeds]
    text = shown(compare_encodings(build_grids(of, runs, {}), "rope", "nope"))
    rows = [line.split() for line in text.splitlines()]
    half = scipy.stats.t(2).ppf(0.975) * 0.1 * np.log2(1.5) / 3**0.5
    half = f"{half:.3f}".removeprefix("0")
    assert ["sorting", "6", "→", "12", ".475", "±", half, ".158", "±", ".000", "+.317", "±", half, "1.00"] in rows
    # .8 at L and .6 at 1.5 L, .3 at 2 L; against 1 at L and .2 at 1.5 L.
    reaches = 1.5 * (2 / 1.5) ** (1 / 3), 1.5 ** (0.5 / 0.8)
    assert ["sorting", ".900", "⚑", "1.000", *(f"{x:.2f}" for x in reaches)] in rows
    assert ["step", "time,", "nope", "=", "1", "1.67", "1.00"] in rows
    assert ["seeds", "3", "3"] in rows
    assert "⚑: rope is under .950 at l ≤ L on a task" in text
    assert "nope is under" not in text


@pytest.mark.parametrize(
    ("value", "text"), [(0.25, "+.250"), (-0.25, "-.250"), (-0.0004, ".000"), (0.0, ".000"), (1, "+1.000")]
)
def test_signs_of_differences(value, text):
    assert compare_text.interval((value, None), signed=True) == text


def test_step_times_of_cards_are_marked_if_the_machine_was_busy_and_compare_across_machines():
    runs = full(suite(), {"rope": GOOD, "nope": BAD})
    runs[0] = runs[0].model_copy(update={"device": "cuda"})
    (grid,) = build_grids(suite(), runs, {})
    assert "different machines" in shown(compare_encodings([grid], "rope", "nope"))
    costs = {"rope": RelativeCost(2, 2, 2, True), "nope": RelativeCost(1, 1, 1, False)}
    text = shown(compare_encodings([replace(grid, costs=costs)], "rope", "nope"))
    assert "2.00 ‡" in text and "‡: timed on a busy machine" in text and "different machines" not in text


def test_a_single_seed_has_no_interval_and_is_noted():
    of = suite(seeds=[0])
    text = shown(compare_encodings(build_grids(of, full(of, {"rope": GOOD, "nope": BAD}), {}), "rope", "nope"))
    assert "±" not in text.replace("± half-width", "")
    assert not re.search(r"\[\.", text)
    assert "a single seed does not show the spread" in text
    assert "a single seed" not in shown(compare_encodings(grids(rope=GOOD, nope=BAD), "rope", "nope"))


def test_missing_failed_and_diverged_runs_are_noted():
    of = suite()
    runs = [r for r in full(of, {"rope": GOOD, "nope": BAD}) if (r.encoding.name, r.task, r.seed) != ("rope", "parity", 1)]
    runs[-1] = result(of, "sorting", "nope", 2, (0, 0, 0, 0), status="diverged", device="cuda")
    runs[0] = result(of, "parity", record("rope", ranking="task-aware"), 0, GOOD, finished="2026")
    found = compare_encodings(build_grids(of, runs, {("parity", "rope", 1): failure("CUDA [bold]error")}), "rope", "nope")
    notes = " ".join(shown(found).split("Notes")[1].split())
    for line in [
        "failed: rope on parity, seed 1: CUDA [bold]error",
        "diverged: nope on sorting, seed 2, after 800 steps; counts as zero",
        "different tables of the board, task-aware and standard",
        "different machines and do not compare: cpu, 1 thread; cuda, 1 thread",
    ]:
        assert line in notes, line
    assert "Notes" not in shown(compare_encodings(grids(rope=GOOD, nope=GOOD), "rope", "nope"))


@given(st.sampled_from(HOSTILE), st.integers(30, 200))
def test_no_line_is_wider_than_the_terminal_and_no_name_breaks_out(name, width):
    text = shown(compare_encodings(grids(**{name: GOOD, "nope": BAD}), name, "nope"), width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert "\x1b" not in text
    if width > 100 and "\n" not in name and len(name) < 50:
        assert f"A {name}".replace("\x1b", "�") in text


def test_markup_in_names_stays_text():
    of = suite()
    made = record("rope", family=":smile: [b]x[/b]", ranking="[red]")
    runs = [result(of, t.task, made, s, GOOD) for t in of.tasks for s in of.seeds] + full(of, {"nope": BAD})
    text = shown(compare_encodings(build_grids(of, runs, {}), "rope", "nope"))
    assert ":smile: [b]x[/b]" in text
    assert "[red]" in text


@pytest.mark.parametrize(("curve", "words"), [(BAD, "p <.001: separated"), (GOOD, "p 1.000: not separated")])
def test_the_verdict_in_words(curve, words):
    assert words in " ".join(shown(compare_encodings(grids(rope=GOOD, nope=curve), "rope", "nope")).split())


def test_every_number_fits_on_a_line_of_eighty_columns():
    of, levels = suite(name="small"), {"rope": 0.5, "nope": 0.1}
    runs = [result(of, t.task, e, s, (1, 1, x + s / 9, x)) for e, x in levels.items() for t in of.tasks for s in of.seeds]
    text = shown(compare_encodings(build_grids(of, runs, {}), "rope", "nope"))
    assert re.search(r"^sorting +6 → 12 +\.\d{3} ± \.\d{3} +\.\d{3} ± \.\d{3} +\+\.\d{3} ± \.\d{3} +1\.00", text, re.M)


def test_colour_is_used_only_on_a_terminal():
    found = compare_encodings(grids(rope=GOOD, nope=BAD), "rope", "nope")
    coloured = shown(found, force_terminal=True, color_system="standard")
    assert "\x1b[36m" in coloured and "\x1b[35m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == shown(found)


def test_a_terminal_without_unicode_gets_ascii_bars_and_signs():
    text = shown(compare_encodings(grids(rope=BAD, nope=GOOD), "rope", "nope"), encoding="ascii")
    lengths, bars, *_ = curve_lines(text, "sorting")
    assert "?" not in lengths + bars
    assert bars.split() == ["A", "####", "####", "|", "====", "...."]
    assert "-.525" in text, "a sign is never lost"


def test_bars_are_steps_of_an_eighth():
    heights = [compare_text.BARS.index(compare_text.bar(n / 80, compare_text.BARS)) for n in range(81)]
    assert all(abs(height / 8 - n / 80) <= 1 / 16 for n, height in enumerate(heights))
    assert len(compare_text.BARS) == len(compare_text.PLAIN_BARS) == 9
