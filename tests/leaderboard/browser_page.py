"""A page of made-up results for the tests in Chromium, and what they do on it."""

import numpy as np
from synthetic_results import failure, full, record, result, suite

from leaderboard.data.grid import build_grids
from leaderboard.render import html_page
from leaderboard.stats.summary import summarise_cell

HOSTILE = ("</script><script>window.hacked=1</script>", '"><img src=x onerror=window.hacked=1>', "{{data}} `x` |", "__proto__")
OF = suite(test_examples=16)  # odd sixteenths are where Python and JavaScript round apart
SECOND = suite(name="second", version=2)


def runs_of(of):
    """A dozen encodings of all ranking classes, each with its own curves; one lacks a task, some have hostile names."""
    generator = np.random.default_rng(0)
    families = {"rope": "rotary", "yarn": "rotary", "alibi": "bias", "t5": "bias", "nope": "none"}
    names = [*families, "finetuned(rope)", "abacus", *HOSTILE]
    runs = []
    for name in names:
        ranking = {"abacus": "task-aware", "finetuned(rope)": "longer"}.get(name, "standard")
        made = record(name, family=families.get(name, "other"), ranking=ranking, year=int(2000 + generator.integers(26)))
        strength = generator.random()
        for task in of.tasks:
            for seed in of.seeds:
                past = np.clip(strength + 0.2 * generator.standard_normal(2) - [0.1, 0.2], 0, 1)
                exact = np.round(np.array([1, 0.97, *past]) * of.test_examples) / of.test_examples
                runs.append(result(of, task.task, made, seed, exact.tolist(), parameters={"model": 9, "encoding": len(runs)}))
    return [run for run in runs if (run.encoding.name, run.task) != ("t5", "parity")]


RUNS = runs_of(OF)
(GRID,) = build_grids(OF, RUNS, {("parity", "t5", 1): failure("out of memory")})


def write_page(folder):
    """The page of ``GRID`` and of a second suite, which has thirty encodings and an older version; its address."""
    older = [
        run.model_copy(update={"fingerprint": "0ld", "suite_version": 1}) for run in full(SECOND, {"shaw": (1, 1, 0.5, 0.5)})
    ]
    second = build_grids(SECOND, full(SECOND, {f"e{i:02}": (1, 1, i / 30, 0) for i in range(30)}) + older, {})
    return html_page.write_html_page({"tiny": [GRID], "second": second}, folder).as_uri()


def shown(tab):
    """Names in the table, top to bottom."""
    return tab.locator(".board:visible tr[data-row]:visible .name").all_inner_texts()


def chips(tab):
    return [text.replace("×", "").replace("†", "").strip() for text in tab.locator(".chip").all_inner_texts()]


def row(tab, name):
    return tab.locator(".board:visible tr[data-row]").filter(has=tab.get_by_text(name, exact=True))


def past(name, task):
    """Score of an encoding on a task."""
    column = next(column for column in GRID.columns if column.task == task)
    scores = summarise_cell(GRID, column, name).scores
    return scores.mean() if len(scores) else None


def all_columns(tab):
    tab.get_by_text("Columns", exact=True).click()
    tab.get_by_role("button", name="All", exact=True).click()
    tab.keyboard.press("Escape")


def visible_heads(tab):
    return [text.strip() for text in tab.locator(".board:visible thead th:visible").all_inner_texts()]


def select(tab, *names):
    tab.get_by_role("button", name="None", exact=True).click()
    for name in names:
        row(tab, name).get_by_role("checkbox").check()


def at(tab, panel, name, i, on=0.0):
    """Screen position of an encoding's curve at the i-th length, or that share of the way to the next."""
    means = GRID.exact(OF.tasks[panel].task, name).mean(0)
    y = float(np.interp(i + on, range(len(means)), means))
    find = """([panel, i, on, y]) => {
      const chart = Chart.getChart(document.querySelectorAll('#panels canvas')[panel]);
      const box = chart.canvas.getBoundingClientRect();
      const [from, to] = [i, i + 1].map((k) => chart.data.datasets.at(-1).data[k]?.x ?? 0);
      const x = from + on * (to - from);
      return [box.left + chart.scales.x.getPixelForValue(x), box.top + chart.scales.y.getPixelForValue(y)];
    }"""
    tab.locator(".plot").nth(panel).scroll_into_view_if_needed()
    return tab.evaluate(find, [panel, i, on, y])
