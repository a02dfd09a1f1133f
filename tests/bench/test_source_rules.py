"""The rules for source, one cheat each; its code does not run."""

import pytest
from cheat_files import fault_of, source_of

from bench.check.judged import Judged
from bench.check.source_rules import source_faults
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


MODULES = [
    ("import torch as t\ndef f():\n    return t.cos\ndef g():\n    import math as t", "gives the name t to two modules"),
    ("class A:\n    import torch as t\n    def f(self):\n        return self.t.load", "imports in the body of a class"),
    ("from other import t\nt.load('x')", "imports the module t from another file"),
    ("from other import t as u\nu.load('x')", "imports the module t from another file"),
    ("from . import t\nt.load('x')", "imports the module t from another file"),
    ("import other\nother.t.load('x')", "uses the module other.t of another file"),
    ("from . import other as o\no.t.load('x')", "uses the module o.t of another file"),
    ("from other import *\nt.load('x')", "imports * from other"),
    ("import torch\ntorch.get_device_module('cpu').torch.load('x')", "uses torch.get_device_module"),
    ("import torch\ntorch.autograd.set_grad_enabled(False)", "uses torch.autograd.set_grad_enabled"),
    ("from enum import global_enum", "uses enum.global_enum"),
    ("import torch\ntorch.PyTorchFileReader('x')", "uses torch.PyTorchFileReader"),
    ("import torch\ntorch.default_generator.manual_seed(0)", "uses torch.default_generator"),
    ("from functools import wraps", "uses functools.wraps"),
    ("from collections.abc import Mapping\nMapping.register(int)", "uses .register"),
    ("from contextlib import chdir", "uses contextlib.chdir"),
]


@pytest.mark.parametrize(("text", "message"), MODULES)
def test_nothing_is_reached_around_the_names_of_imports(text, message):
    faults = source_faults({"mine.py": text.encode(), "other.py": b"import torch as t\n\nt.arange(3)\n"})
    assert len(faults) == 1 and message in faults[0]


def test_a_file_may_import_what_another_defines():
    text = b"import torch\n\nfrom . import other\nfrom .other import size as n\n\ntorch.arange(n + other.size)\n"
    assert not source_faults({"mine.py": text, "other.py": b"import torch as t\n\nsize = t.pi\n"})


@pytest.mark.parametrize("name", ["r0pe", "rope_", "ro_pe", "a1ibi", "t_5"])
def test_names_that_look_like_built_in_ones(name):
    with pytest.raises(InputError, match=r"looks like '(rope|alibi|t5)', a built-in encoding"):
        validate_name(name, "mine.py")
    validate_name(f"my_{name}", "mine.py")
