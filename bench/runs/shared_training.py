"""Runs that share a training: encodings that differ only past L are trained once and tested many times.

``training_form`` says which encoding's training an encoding shares. The training belongs to that encoding's run and is stored
in its folder, whichever run makes it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from .run import WEIGHTS, Run


@cache
def trained_as(encoding: str) -> str:
    """Name of the encoding whose training an encoding shares up to the recipe's last step; often its own."""
    from bench.encodings.compose import training_form  # loads torch, which `lprime status` does not need
    from bench.plugins.registry import get_encoding, is_built_in
    from bench.plugins.source_hash import source_hash

    try:
        own = get_encoding(encoding)
        form = training_form(own)
        # By name, another process would train another class: a plugin's that it has not loaded, or one that shares its name.
        if form.info.name == own.info.name or source_hash(get_encoding(form.info.name)) != source_hash(form):
            return encoding  # as given: names can be spelled in several ways
        if is_built_in(form.info.name) and not is_built_in(own.info.name):
            return encoding  # code of a plugin makes no run of a built-in encoding
        return form.info.name
    except Exception:  # unknown, so its run fails and says why
        return encoding


def training_run(run: Run) -> Run:
    """The run that the training of ``run`` belongs to; often ``run`` itself."""
    return replace(run, encoding=trained_as(run.encoding))


def weights_file(run: Run, out: Path) -> Path:
    """The file of a run's tested weights: in its own folder if it has an extra stage, else in the folder of its training."""
    return (run if run.extra_steps else training_run(run)).folder(out) / WEIGHTS


def is_trained(run: Run, out: Path) -> bool:
    """Whether the weights of a run's training are stored."""
    return (training_run(run).folder(out) / WEIGHTS).exists()


def shared_trainings(grid: Iterable[str] = ()) -> set[str]:
    """Encodings whose training others share: encodings of the catalogue, or of this grid."""
    from bench.encodings import catalogue

    return {trained_as(name) for name in {*catalogue(), *grid} if trained_as(name) != name}


def group_by_training(runs: Sequence[Run]) -> list[Run]:
    """The runs in order, except that runs of one training follow its first."""
    places: dict[Run, int] = {}
    return sorted(runs, key=lambda run: places.setdefault(training_run(run), len(places)))
