"""The rules for source, one cheat each; its code does not run."""

import pytest
from cheat_files import fault_of, source_of

from bench.check.judged import Judged
from bench.plugins.registry import validate_name
from bench.sealed.process import Code
from tasks import InputError

# --- the rules for source: the code does not run

SOURCE = [
    ("ReadsTheEnvironment", "imports os, which is not allowed"),
    ("ReadsAFile", "uses open, which is not allowed"),
    ("ReadsItsFolder", "imports from pathlib"),
    ("CallsTheNetwork", "imports socket"),
    ("StartsADaemon", "imports subprocess"),
    ("LoadsWeights", "uses torch.load"),
    ("LoadsAnArray", "uses numpy.fromfile"),
    ("ReadsFrames", "imports sys"),
    ("ReadsFramesOfAGenerator", "uses .gi_frame"),
    ("ReadsFramesOfAnError", "uses .__traceback__"),
    ("ChangesTheModel", "imports gc"),
    ("ReplacesTheScoring", "imports from bench.training"),
    ("ReplacesTheChecks", "imports from bench.check.checks"),
    ("ReplacesTheSoftmax", "assigns to F.softmax"),
    ("ReplacesTheBaseClass", "assigns to Encoding.positions"),
    ("ReplacesTheActivation", "gives the name ctx to something else than the first argument of a method"),
    ("ReplacesTheNorm", "gives the name cls to something else than the first argument of a method"),
    ("ChangesItsInfo", "assigns to self.info; declare it in the class"),
    ("MakesAnother", "defines make; put it into __init__"),
    ("DefinesAMetaclass", "uses abc.ABCMeta, which is not allowed"),
    ("HooksTheHead", "uses .register_forward_hook"),
    ("HooksAllModules", "uses the module torch.nn.modules"),
    ("OverridesTorch", "imports from torch.overrides"),
    ("SetsTheSeed", "uses torch.manual_seed"),
    ("ReadsMemory", "uses .ctypes"),
    ("RunsText", "uses exec"),
    ("ImportsByName", "uses __import__"),
    ("FindsSubclasses", "uses .__subclasses__"),
    ("GetsByName", "uses getattr"),
    ("PassesAModuleOn", "uses the module torch as a value"),
    ("ReachesThroughAModule", "uses the module dataclasses.sys"),
    ("MatchesAnAttribute", "uses .__class__"),
    ("RedefinesSelf", "assigns another value to self"),
    ("CountsInAGlobal", "global calls: hooks keep no state"),
    ("DrawsTheTests", "uses tasks.test_set"),
    ("HoldsNumbers", "numbers in the source, more than 1,000"),
    ("HoldsANumber", "cheat.py, line 7: a number of more than 24 digits"),
    ("HoldsText", "strings of 6,"),
    ("HoldsBytes", "cheat.py, line 7: bytes are not allowed"),
    ("HoldsWeightsInNames", "different names of 8,"),
    ("ReadsAFileAsStorage", "uses .from_file"),
    ("HidesCharacters", "contains an invisible character (U+FE01)"),
    ("HidesBlanks", "contains an invisible character (U+3164)"),
    ("HidesInALongLine", "has more than 200 characters in line"),
    ("UsesAnotherAlphabet", "is not ASCII"),
    ("EncodesInLetters", "is not ASCII"),
]


@pytest.mark.parametrize(("name", "message"), SOURCE, ids=[name for name, _ in SOURCE])
def test_rules_for_source(name, message):
    assert message in fault_of("source", Judged(name, Code(name), [source_of(name)]))


@pytest.mark.parametrize("name", ["r0pe", "rope_", "ro_pe", "a1ibi", "t_5"])
def test_names_that_look_like_built_in_ones(name):
    with pytest.raises(InputError, match=r"looks like '(rope|alibi|t5)', a built-in encoding"):
        validate_name(name, "mine.py")
    validate_name(f"my_{name}", "mine.py")
