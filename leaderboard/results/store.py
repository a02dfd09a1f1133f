"""The store of published runs: text files, kept in git.

::

    <folder>/results/<suite>/<encoding>.jsonl    one finished run per line, by task, learning rate and seed; all versions
    <folder>/results/cards.json                  cost of each encoding, as ``bench.measure`` measured it; one a line
"""

from collections.abc import Sequence
from pathlib import Path
from warnings import catch_warnings

import pandas as pd

from bench.measure import Card
from bench.result import RESULT, Result, read_records
from bench.suites.suite import load_suite, shipped
from tasks import InputError, catalogue, unknown

from .columns import COSTS
from .file_names import RESULTS, file_name, write_if_changed
from .frame import Damaged, build_frame, local_results, stored_results

CARDS = "cards.json"
"""File of cards by encoding: see ``bench.result.read_records``."""
OUTCOME = ("variant", "train_length", "longest_seen", "status", "steps", "loss", "scores", "parameters", "data_hash")
"""Fields of a result that are the outcome of a run. Two results of one run may differ in dates, timings and machine, but not in
these, nor in the settings of the encoding."""


def key_of(run: Result) -> tuple[str, str, float, int, int, str]:
    """What identifies a run of a suite, its encoding first; lines of a file are in this order."""
    return run.encoding.name, run.task, run.learning_rate or 0.0, run.seed, run.suite_version, run.fingerprint


def publish(suite: str, out: Path, folder: Path, encodings: Sequence[str] | None = None) -> tuple[int, int]:
    """Add the finished runs under ``<out>/<suite>`` to the store. Publishing the same runs again changes nothing.

    Runs of code that is not built in must be sealed. Runs with seeds that a shipped suite does not name, such as those of
    findings, are left out.

    Arguments:
        suite: name of the suite.
        folder: the published board; the store is its ``results``.
        encodings: publish only these; None publishes all that have runs.

    Returns:
        How many runs were added, and how many were published before, with the same outcome.

    Raises:
        InputError: no runs, a broken or contradictory one, one that is not sealed, a name that no file can have, or a run
            published before with another outcome. Nothing is written then.
    """
    from bench.plugins.registry import is_built_in

    place = folder / RESULTS / suite
    with catch_warnings(action="error", category=Damaged):
        found = {key_of(run): run for run in local_results(out, suite)}
        stored = {key_of(run): (run, line) for run, line in stored_results(folder, suite)}
    if not found:
        raise InputError(f"no results of suite {suite} under {out / suite}; `lprime run` writes them")
    have = sorted({encoding for encoding, *_ in found})
    for encoding in encodings or ():
        if encoding not in have:
            raise unknown(f"encoding with results of suite {suite}", encoding, have)
    seeds = load_suite(suite).seeds if suite in shipped() else {run.seed for run in found.values()}
    found = {key: run for key, run in found.items() if (not encodings or key[0] in encodings) and run.seed in seeds}
    for key, run in found.items():
        name, path = run.encoding.name, out / run.path / RESULT
        if not ((run.sealed and run.test_seed is not None) or is_built_in(name)):
            how = f"`lprime run {suite} --encoding FOLDER --sealed`, with the folder that `lprime submit` writes"
            raise InputError(f"{path}: {name} is not built in, and the run was not sealed; run it again with {how}")
        if run.task not in catalogue():
            raise InputError(f"{path}: task {run.task} is not built in; boards have built-in tasks only")
        if key in stored:
            other = stored[key][0]
            differ = [field for field in OUTCOME if getattr(run, field) != getattr(other, field)]
            differ += ["settings"] if run.encoding.settings != other.encoding.settings else []
            if differ:
                why = "another processor or version rounds differently; sealed runs draw their tests"
                what = f"the published {run.task} seed {run.seed} of {place / file_name(name)} in {', '.join(differ)}"
                raise InputError(f"{path} contradicts {what}; find out why ({why}), then delete one")
    new = {key: run for key, run in found.items() if key not in stored}
    lines = {key: line for key, (_, line) in stored.items()}
    lines |= {key: run.model_dump_json().encode() for key, run in new.items()}
    with catch_warnings(action="error", category=Damaged):  # contradictory runs, before anything is written
        build_frame([*(run for run, _ in stored.values()), *new.values()], "published")
    for file, encoding in [(place / file_name(name), name) for name in sorted({name for name, *_ in new})]:
        own = sorted(key for key in lines if key[0] == encoding)
        write_if_changed(file, b"".join(lines[key] + b"\n" for key in own))
    return len(new), len(found) - len(new)


def relative_costs(folder: Path, suite: str) -> pd.DataFrame:
    """Costs of a training step relative to NoPE, by encoding, where they were measured on this suite's model.

    ``step_time`` and ``flops`` are at L, ``memory`` (peak) at the longest length measured.
    """
    cards = read_records(folder / RESULTS / CARDS, Card)
    own = {name: card for name, card in cards.items() if card.suite == suite and card.costs}
    rows = {name: (card.costs[0].step_ratio, card.flops_ratio, card.costs[-1].peak_ratio) for name, card in own.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=COSTS)
