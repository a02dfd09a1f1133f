"""Cheats, each with what catches it: a check of hooks, the judge of a sealed run, or the sandbox."""

import os
import re
import threading
from multiprocessing.connection import Connection
from types import SimpleNamespace

import pytest
import torch
from cheat_files import CHEATS, CHECKS, fault_of, make_subject, reference, sealed_code
from support import suite_dict

from bench.check import check_encoding
from bench.runs.run import Run
from bench.runs.run_lock import read_heartbeat
from bench.sealed import process, served_model
from bench.sealed.process import Channel, SealedError
from bench.sealed.request import SealedRequest
from bench.sealed.run import run_sealed
from bench.suites.suite import Suite, validated
from bench.training.train import Stopped
from tasks import InputError

pytestmark = pytest.mark.usefixtures("fresh_registry")
SHORT = validated(Suite, suite_dict(test_examples=96, test_at=[1, 2]), "short")
"""Of sealed runs, with batches as large as real ones."""


# --- checks of hooks

CAUGHT = [
    ("causality", "PeeksThroughTheBias", "first in layer 0 of 0 … 2"),
    ("causality", "PeeksThroughTheEmbedding", "in training, 11 tokens (L is 11), copying"),
    ("causality", "PeeksInEvaluation", "in evaluation, 11 tokens"),
    ("causality", "PeeksInInference", "in evaluation, 11 tokens"),
    ("causality", "PeeksUnderAutocast", "in training, 19 tokens"),
    ("causality", "PeeksPastL", "in training, 19 tokens (L is 11)"),
    ("causality", "PeeksInLongSequences", "in training, 19 tokens (L is 11)"),
    ("causality", "PeeksAtOneLength", "in evaluation, 14 tokens (L is 11)"),
    ("causality", "PeeksAtOnePosition", "the output at position 5 changes with tokens after 5"),
    ("causality", "PeeksInTheLastLayer", "first in layer 2 of 0 … 2"),
    ("causality", "PeeksInAFourthLayer", "first in layer 3 of 0 … 3"),
    ("causality", "PeeksOnceTrained", "the output at position 0 changes with tokens after 0"),
    ("cutting", "ScalesByTheTensor", "the output at position 1 changes when the sequence is cut after 2 tokens"),
    ("batches", "AveragesTheBatch", "the output of a row changes with the content of other rows"),
    ("memory", "KeepsAnAverage", "the same batch gives another output in turn"),
    ("memory", "KeepsInAGlobal", "the same batch gives another output in turn"),
    ("memory", "KeepsInAnotherModule", "the same batch gives another output in turn"),
    ("determinism", "DependsOnAnAddress", "two models of the same seed give different outputs"),
    ("randomness", "DrawsElsewhere", "draws from a global generator"),
    ("randomness", "DrawsUndeclared", "but info says random=False"),
    ("randomness", "DrawsNothing", "but info says random=True"),
    ("state dict", "HidesATable", "the encoding keeps numbers outside its state dict"),
    ("tokens", "SolvesParity", "`positions` gives other ids for other tokens"),
    ("tokens", "SolvesRealPrompts", "`positions` gives other ids for other tokens"),
    ("tokens", "SolvesInInference", "`positions` gives other ids for other tokens"),
    ("mutation", "WritesIntoTheStream", "`embed` writes into x"),
    ("mutation", "WritesIntoTheKeys", "`bias` writes into k"),
    ("mutation", "WritesInInference", "in evaluation: `attend` writes into v"),
    ("mutation", "ChangesItsWeights", "in training: a pass changes the model's encoding.scale"),
    ("declaration", "DeclaresNothing", "title is not one line of text: ''; link does not begin with https://"),
    ("declaration", "HasPositionalSettings", "argument base of __init__ is not keyword-only"),
    ("declaration", "HasAStage", "its ranking is not 'longer'"),
    ("interface", "GivesInfinity", "`bias` returns infinity"),
    ("interface", "GivesAnotherShape", "`bias` returns [1, 2] of torch.float32; expected None, or float32 or float64"),
    ("interface", "DeclaresNothing", "overrides none of embed, rotate, bias and attend, so it is NoPE"),
    ("devices", "ForgetsTheDevice", "device"),
    ("devices", "ReturnsFromTheCPU", "`bias` returns a tensor on the CPU, wherever its arguments are"),
    ("devices", "ComputesInNumpy", "converts a tensor to numpy"),
    ("positions", "DeclaresShifts", "changes outputs, but info says shift_invariant=True"),
    ("positions", "DeclaresNoShifts", "changes nothing, but info says shift_invariant=False"),
    ("positions", "DeclaresFractions", "fractional position ids raise IndexError"),
    ("numbers", "Overflows", "19 tokens announced as 19: outputs are not finite, first at position"),
    ("numbers", "RoundsPositions", "bf16 autocast changes outputs at L′ by"),
    ("gradients", "HasAnUnusedParameter", "no gradient reaches encoding.unused"),
    ("cost", "HasTooManyParameters", "1,000,000 parameters, more than the model's"),
    ("interface", "UsesRoles", "raises ValueError: tuple.index(x): x not in tuple"),
    ("tokens", "UsesNextTokens", "`positions` gives other ids for other tokens"),
    ("tokens", "UsesTokensOfManyRows", "`positions` gives other ids for other tokens"),
    ("tokens", "MakesAnInstanceTaskAware", "`positions` gives other ids for other tokens"),
    ("interface", "MakesAnotherClass", "`make` returns DeclaresTaskAware; expected MakesAnotherClass"),
    ("tokens", "SolvesParityInEmbed", "noise of 0.001 on the embeddings changes outputs by up to"),
    ("learning", "IgnoresItsInput", "in 150 steps; "),
    # written after the checks, which were not changed for them
    ("memory", "CountsInAnArray", "the same batch gives another output"),
    ("interface", "KeepsInADefault", "a model in float64 gives other outputs"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "name", "message"), CAUGHT, ids=[f"{c}-{n}" for c, n, _ in CAUGHT])
def test_checks_of_hooks(check, name, message):
    assert message in fault_of(check, make_subject(name))


@pytest.mark.parametrize(("name", "shown"), [("abacus", True), ("rope", False), ("MakesAnInstanceTaskAware", False)])
def test_encodings_see_tokens_and_vocabulary_only_if_they_say_so(name, shown, monkeypatch):
    model, tokens, seen = make_subject(name).model(), torch.full((2, 5), 3), []
    positions = model.encoding.positions
    monkeypatch.setattr(model.encoding, "positions", lambda given, at: seen.append(given) or positions(given, at))
    model.cacheable = False
    model(tokens, 5)
    assert torch.equal(seen[0], tokens * shown)
    assert bool(model.encoding.setup.roles) == bool(model.encoding.setup.symbols) == shown


def test_an_instance_of_another_class_is_refused():
    with pytest.raises(InputError, match="`make` of makes_another_class returns a DeclaresTaskAware; expected a MakesAnotherC"):
        make_subject("MakesAnotherClass").model()


# --- the judge of a sealed run

LOGITS, SLOPE = "in the process that has trained, with the answer in view", "the gradient predicts a slope of"
SEALED = [
    ("PeeksOnRealBatches", LOGITS),
    ("PeeksInLaterRows", LOGITS),
    ("PeeksAfterManyCalls", f"{LOGITS}|{SLOPE}"),
    ("PeeksWithTrainedWeights", LOGITS),
    ("PeeksAtTheEndOfAnswers", "tokens: logits change by"),
    ("LearnsFromTests", LOGITS),
    ("LearnsInSecret", f"{LOGITS}|{SLOPE}"),
    ("GivesOtherGradients", SLOPE),
    ("TrainsOnOtherSequences", SLOPE),
    ("TrainsItsStageOnOtherSequences", SLOPE),
    ("TrainsWithMarks", SLOPE),
    ("PeeksInEvaluationOfOddLengths", LOGITS),  # written after the judge, which was not changed for it
]


def audit(name: str) -> str:
    """What the judge finds in a sealed run of one task."""
    code = sealed_code(name)
    try:
        run_sealed(Run(SHORT, SHORT.tasks[0].task, code.encoding.name, 0), code)
    except InputError as error:
        return str(error)
    return ""


def start_thread(arguments, code, descriptor, stderr):
    """A sealed process as a thread of this one, which takes no ten seconds to start: messages and models are the same."""
    connection = Connection(os.dup(descriptor))

    def serve() -> None:
        channel = Channel(connection)
        try:
            served_model.serve(channel, channel.receive()[2])
        except (SealedError, OSError):  # the judge has closed it
            connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    return SimpleNamespace(returncode=0, kill=lambda: None, wait=lambda timeout=None: thread.join(timeout))


@pytest.fixture
def short_runs(monkeypatch):
    """Sealed runs in threads, of a short training."""
    monkeypatch.setattr(process, "start_sandboxed", start_thread)


@pytest.mark.usefixtures("short_runs")
@pytest.mark.parametrize(("name", "message"), SEALED, ids=[name for name, _ in SEALED])
def test_the_judge_of_a_sealed_run(name, message):
    assert re.search(message, audit(name))


@pytest.mark.usefixtures("short_runs")
@pytest.mark.parametrize("name", ["finetuned(rope)", "drope", "abacus"])
def test_the_judge_has_nothing_against_honest_encodings(name):
    assert audit(name) == ""


@pytest.mark.usefixtures("short_runs")
def test_a_sealed_run_counts_its_stage_and_stops_in_its_tests(tmp_path):
    run, beats = Run(validated(Suite, suite_dict(recipe={"steps": 100}), "tiny"), "copying", "finetuned(rope)", 0), []

    def should_stop() -> bool:
        beats.append(read_heartbeat(run.folder(tmp_path)))
        return len(beats) > 101

    with pytest.raises(Stopped):
        SealedRequest.of_run(run, sealed_code(run.encoding)).execute(tmp_path, "cpu", 10, lambda step: None, should_stop)
    assert {beat.steps for beat in beats[1:]} == {101}


# --- what nothing catches, and why

MISSED = {
    "ComparesRowsWithAMargin": "a hook may compute anything from the rows it gets",
    "RecognisesTheTask": "lengths are part of the setup",
    "GivesOtherGradientsSeldom": "eight steps of a run are audited",
    "PeeksAndDraws": "random encodings are not compared, but peek at nothing in a sealed run",
    "TrainsItsOwnParametersFaster": "few parameters are a small part of the gradient; AdamW divides by its size",
}


@pytest.mark.usefixtures("short_runs")
@pytest.mark.parametrize("name", MISSED)
def test_cheats_that_nothing_catches(name):
    subject = make_subject(name)
    for check in ("memory", "tokens", "gradients"):
        assert CHECKS[check].run(subject)
    if name != "GivesOtherGradientsSeldom":  # it is found in some runs
        assert audit(name) == ""


# --- the sandbox and its limits: test_sealed.py has network, files, environment and daemons


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("name", "limits", "message"),
    [
        ("Hangs", {"time_limit_s": 1}, "positions(tokens [2, 1], at) has not returned after 1 s; a loop does not end"),
        ("Hoards", {"memory_limit_gb": 1}, "can't allocate memory"),
        ("Dies", {}, "its process ended (exit code "),
        ("ReadsAFileAsStorage", {}, "unable to open file </etc/hostname>"),
    ],
)
def test_code_that_exceeds_its_limits_or_dies(name, limits, message):
    try:
        report = check_encoding(reference(name), only=["interface", "positions"], sandbox=True, **limits)
    except InputError as error:
        assert message in str(error)
        return
    first, second = report.findings
    assert (first.check, first.status, second.status) == ("interface", "failed", "not run") and message in first.found


def test_a_process_that_ends_before_the_wanted_checks_is_an_error():
    with pytest.raises(InputError, match=r"Dies cannot be checked: its process ended \(exit code "):
        check_encoding(reference("Dies"), only=["learning"], sandbox=False)


def test_every_check_has_a_cheat_and_every_cheat_a_test():
    assert {check for check, _, _ in CAUGHT} | {"sharing"} == CHECKS.keys()  # of the last: test_training_forms.py
    text = "".join(path.read_text() for path in CHEATS.glob("*.py"))
    written = set(re.findall(r"^class (\w+)\((?!Encoding|enum|torch)", text, re.MULTILINE))
    tested = {name for *_, name, _ in (*CAUGHT, *SEALED)} | {*MISSED}
    honest = {"Peeks", "DeclaresTaskAware", "LearnsInItsStage"}  # a base class, and two of test_check.py
    assert written - tested == honest | {"Hangs", "Hoards", "Dies", "ReadsAFileAsStorage"}
