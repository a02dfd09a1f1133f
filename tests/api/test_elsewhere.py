"""lprime installed from its wheel, in a folder with files named like its packages; names of ``lprime``, loaded on first use."""

import email
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from support import ROOT

import lprime

BLOCKED = "raise SystemExit('the file of the user was imported')"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The contents of the wheel, built from the files of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns("images", "pages", "__pycache__")
    for name in ("lprime", "bench", "tasks", "leaderboard", "slurm"):
        shutil.copytree(ROOT / name, folder / "source" / name, ignore=ignored)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / "source")
    build = "from setuptools import build_meta; build_meta.build_wheel('..')"
    env = os.environ | {"GITHUB_SERVER_URL": "https://x.y", "GITHUB_REPOSITORY": "lab/lprime"}
    done = subprocess.run(
        [sys.executable, "-c", build], cwd=folder / "source", env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    with ZipFile(path) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def results_of(folder: Path) -> dict[str, bytes]:
    found = folder.glob("published/results/**/*.json*")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def test_the_wheel_has_all_published_results_its_addresses_and_a_readme_with_links_there(wheel):
    assert results_of(wheel / "leaderboard") == results_of(ROOT / "leaderboard") != {}
    assert (wheel / "lprime/py.typed").exists() and not (wheel / "benchmarks").exists()
    (metadata,) = wheel.glob("*.dist-info/METADATA")
    message = email.message_from_bytes(metadata.read_bytes())
    assert "Repository, https://x.y/lab/lprime" in message.get_all("Project-URL")
    readme = message.get_payload(decode=True).decode()
    links = re.findall(r'(?:\]\(|src=")([^)"]+)', readme)
    assert all(link.startswith(("https://", "#")) for link in links)
    local = [link.removeprefix("https://x.y/lab/lprime/blob/HEAD/") for link in links if "x.y/lab/lprime/blob" in link]
    assert local and all((ROOT / link.partition("#")[0]).exists() for link in local)


def test_it_works_in_a_folder_with_files_of_the_same_names(wheel, tmp_path):
    (tmp_path / "tasks.py").write_text(BLOCKED)
    (tmp_path / "leaderboard.py").write_text(BLOCKED)
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench/__init__.py").write_text(BLOCKED)
    code = f"""import sys; sys.path.insert(1, {str(wheel)!r})
import json, lprime; assert lprime.__file__.startswith({str(wheel)!r})
frame = lprime.results("small"); report = lprime.check("nope")
print(json.dumps([len(frame), frame["exact"].sum(), report.passed]))
"""
    env = os.environ | {"PYTHONPATH": ""}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows, total, passed = json.loads(done.stdout.splitlines()[0])
    files = (ROOT / "leaderboard/published/results/small").glob("*.jsonl")
    runs = [json.loads(line) for path in files for line in path.read_text().splitlines() if '"suite_version"' in line]
    newest = [run for run in runs if run["suite_version"] == max(each["suite_version"] for each in runs)]
    assert rows == sum(len(run["scores"]) for run in newest) and passed
    assert total == pytest.approx(sum(score["exact"] for run in newest for score in run["scores"]))


def test_a_module_tasks_that_is_loaded_already_stays_with_its_user(tmp_path):
    (tmp_path / "tasks.py").write_text("mine = 1")
    code = "import tasks, lprime; print(tasks.mine, lprime.Encoding.__name__, lprime.Task.__name__)"
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout == "1 Encoding Task\n", done.stderr


def test_names_are_loaded_on_first_use():
    code = "import sys, lprime; print({'torch', 'numpy', 'bench'} & {*sys.modules}); print(lprime.Task, lprime.__version__)"
    lines = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[0] == "set()" and re.fullmatch(r"<class 'tasks\.base\.Task'> \d+\.\d+\.\d+", lines[1])
    assert all(hasattr(lprime, name) for name in dir(lprime))
    with pytest.raises(AttributeError, match="module 'lprime' has no attribute 'Encodin'"):
        lprime.Encodin  # noqa: B018
