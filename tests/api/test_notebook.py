"""The example notebook, executed; and encodings that are written in a notebook, as classes without a file."""

import json
import linecache
from pathlib import Path

import pytest
import yaml
from support import ROOT, suite_dict

import lprime
from bench.plugins.registry import get_encoding
from lprime.api.runs import references_of
from tasks import InputError

pytestmark = pytest.mark.usefixtures("fresh_registry")


class Notebook:
    """Executes cells in one namespace, each known to ``linecache`` under a file name of its own, as in IPython."""

    def __init__(self):
        self.names, self.count = {"__name__": "__main__"}, 0

    def run(self, source: str) -> None:
        self.count += 1
        name = f"<cell {self.count} of {id(self)}>"
        linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
        exec(compile(source, name, "exec"), self.names)


@pytest.mark.parametrize("path", [ROOT / "examples/from_python.ipynb"], ids=lambda path: path.name)
def test_the_example_notebook_runs(here, capsys, path):
    tasks = [{"task": "copying", "variant": "repeat", "train_length": 6}]
    (here / "quick.yaml").write_text(yaml.safe_dump(suite_dict(tasks=tasks, test_at=[0.5, 1, 2])))  # a second, not a minute
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    notebook = Notebook()
    printed = []
    for cell in cells:
        notebook.run("".join(cell["source"]).replace('"quick"', '"quick.yaml"'))
        printed.append(capsys.readouterr().out)
    assert len(cells) > 5 and all(cell["outputs"] for cell in cells[2:4]), "stored with its outputs"
    assert printed[1] == "".join(cells[1]["outputs"][0]["text"]), "the stored output is of the published results as they are"
    assert "log_distance: 9 of 9 checks passed" in "".join(printed)
    assert {p.parts[-3] for p in (here / "runs").glob("*/*/*/*/result.json")} == {"log_distance", "rope"}


CELL = """
import math as m

STRENGTH: float = 1.5
STRENGTH += 1
found = print("a result")
more = [found]

def helper(x):
    return STRENGTH * x

class Mine(lprime.Encoding):
    info = lprime.Info(
        name="mine", family="bias", title="t", authors="a", year=2026, link="https://example.org", formula="f",
        past="p", provenance="p"
    )

    def bias(self, q, k, at: lprime.At):
        return m.floor(helper(at.ids))

print("only in the notebook")
"""


def test_a_cell_of_a_notebook_becomes_a_file(here):
    notebook = Notebook()
    notebook.run("import lprime")
    notebook.run(CELL + CELL[CELL.index("class Mine") : CELL.index("print(")].replace("ine", "ice"))  # two in a cell
    cls = notebook.names["Mine"]
    loaded = get_encoding(*references_of(cls))
    assert loaded is not cls and loaded.bias.__globals__["helper"](2) == 5
    assert "print" not in Path(references_of(cls)[0].removesuffix(":Mine")).read_text()
    notebook.run(CELL.replace("+= 1", "+= 2"))
    changed = get_encoding(*references_of(notebook.names["Mine"]))
    assert changed is not loaded and get_encoding("mine") is changed, "a cell that is executed again replaces the class"


def test_files_are_loaded_again(here):
    source = "import lprime\n" + CELL.split("\nprint")[0].replace("info =", "value, info = 1,")
    (here / "mine.py").write_text(source)
    assert get_encoding(*references_of("mine.py")).value == 1
    (here / "mine.py").write_text(source.replace("info = 1,", "info = 2,"))
    assert get_encoding(*references_of(here / "mine.py")).value == 2
    assert get_encoding(*references_of("rope")) is get_encoding(*references_of(get_encoding("rope"))), "built in"
    assert references_of(get_encoding("randomised(rope)")) == ["randomised(rope)"]


@pytest.mark.parametrize("wrong", [int, None, "rop", lprime.Encoding, lprime.Wrapper, lprime.Task])
def test_what_is_no_encoding_is_refused(here, wrong):
    with pytest.raises(InputError, match=r"expected an encoding|did you mean 'rope'"):
        lprime.evaluate(wrong, "quick")
