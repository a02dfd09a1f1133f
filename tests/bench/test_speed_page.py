"""``make speed``: its record, its page and its command line."""

import subprocess
import sys
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from support import ROOT

from bench.speed import __main__ as command
from bench.speed.page import render_page
from bench.speed.plan import SECTIONS
from bench.speed.record import Growth, Speed, Spread, Step
from bench.speed.tables import speedups


def spread(value: float) -> Spread:
    return Spread(median=value, low=value, high=value, count=3)


def record(**changes) -> Speed:
    """A run of round numbers: on copying we take 10 ms and the libraries 20 and 16, on parity 10 and 40."""

    def step(task: str, who: str, ms: float) -> Step:
        return Step(suite="small", task=task, encoding="rope", who=who, examples=64, parameters=100, ms=spread(ms))

    steps = [step("copying", "lprime", 10), step("copying", "Llama", 20), step("copying", "x-transformers", 16)]
    steps += [step("parity", "lprime", 10), step("parity", "Llama", 40)]
    growth = [
        Growth(
            encoding="nope",
            biases=False,
            step=1.0,
            evaluation=1.0,
            examples=2,
            tokens=[1, 2, 5, 10],
            ms=[spread(1)] * 4,
            exponent=1.5,
            flops_exponent=1.4,
        )
    ]
    values = {
        "quick": False, "date": "2026-11-20", "took_s": 60, "cpu_share": 1, "device": "cpu (some)", "cores": 2, "threads": 1,
        "versions": {"torch": "2.13"}, "steps": steps, "growth": growth,
    }  # fmt: skip
    return Speed(**values | changes)


def test_speedups_compare_medians_with_the_faster_library():
    assert speedups(record().steps) == {"rope": {"copying": 1.6, "parity": 4.0}}
    unrecorded = record().steps[0].model_copy(update={"who": "lprime, not recorded", "ms": spread(1)})
    assert speedups([*record().steps, unrecorded]) == speedups(record().steps)
    assert "2.53×" in render_page(record())  # √(1.6 · 4)


def test_exponents_above_2_are_flagged():
    steep = record().growth[0].model_copy(update={"exponent": 2.1})
    assert "2.10 ⚑" in render_page(record(growth=[steep])) and "1.50 ⚑" not in render_page(record())


def test_spread_is_median_and_quartiles():
    found = Spread.of([0.005, 0.001, 0.002, 0.003, 0.004], 1e3)
    assert (found.low, found.median, found.high, found.count) == pytest.approx((2, 3, 4, 5))


def tables_of(text: str) -> list[list[int]]:
    """Number of cells in each row of each table, as a markdown renderer sees them."""
    counts: list[list[int]] = []
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "table_open":
            counts.append([])
        elif token.type == "tr_open":
            counts[-1].append(0)
        elif token.type in ("th_open", "td_open"):
            counts[-1][-1] += 1
    return counts


def test_quick_run_from_end_to_end(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    out, shown = tmp_path / "speed.json", tmp_path / "SPEED.md"
    command.main(["--quick", "--out", str(out), "--page", str(shown)])
    printed = capsys.readouterr()
    assert "Training step at small's shapes" in printed.out and "overhead" in printed.err
    made = Speed.model_validate_json(out.read_bytes())
    assert made.quick and made.threads == 1 and {"python", "torch", "transformers", "x-transformers"} <= set(made.versions)
    for section in SECTIONS:
        assert getattr(made, section), section
    assert {row.who for row in made.steps} >= {"lprime", "x-transformers", "GPT-2", "Llama"}
    assert made.overhead.runs == 1 and 0 < made.overhead.train_s < made.overhead.wall_s
    assert {row.what for row in made.memory} == {"imports", "training", "long training", "evaluation"}
    text = shown.read_text()
    assert text == render_page(made) and "numbers mean nothing" in text
    assert str(Path.home()) not in text and str(tmp_path) not in text
    counts = tables_of(text)
    assert len(counts) == text.count("\n## ") and all(len(set(rows)) == 1 and len(rows) > 1 for rows in counts)
    shown.unlink()
    command.main(["--from", str(out), "--page", str(shown)])
    assert shown.read_text() == text
    published = command.PAGE.read_bytes()
    command.main(["--from", str(out)])
    assert (
        "not the numbers of a full run, so SPEED.md stays" in capsys.readouterr().out and command.PAGE.read_bytes() == published
    )
    full = made.model_copy(update={"quick": False})
    assert not full.partial and full.model_copy(update={"growth": []}).partial


# --- bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "step"], "did you mean 'steps'"),
        (["--from", "missing.json"], "cannot read missing.json"),
        (["--from", "other.json"], "other.json does not hold the numbers of make speed"),
        (["--quik"], "--quik"),
    ],
)
def test_bad_input_is_one_line(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("other.json").write_text('{"format": 2}')
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    err = capsys.readouterr().err
    assert ended.value.code == 2 and err.startswith("speed: ") and message in err and err.count("\n") == 1


@pytest.mark.parametrize("missing", ["transformers", "x_transformers"])
def test_a_missing_library_is_one_line(tmp_path, monkeypatch, capsys, missing):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SystemExit) as ended:
        command.main(["--quick"])
    err = capsys.readouterr().err
    assert ended.value.code == 2 and f"{missing.replace('_', '-')} is not installed" in err and err.count("\n") == 1


def test_help_imports_no_heavy_library():
    code = "import sys, bench.speed.__main__ as m; print([x for x in ('torch', 'transformers', 'numpy') if x in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT).stdout == "[]\n"
