"""Cheats that the rules for source refuse; their code never runs. Imports are inside, so that each has only its own fault."""

from cheat_base import Cheat, add_marks

from bench.encodings import Encoding

# --- the surroundings


class ReadsTheEnvironment(Cheat):
    def bias(self, q, k, at):
        import os

        return q.new_full((), float(os.environ.get("CHEAT", "0")))


class ReadsAFile(Cheat):
    def prepare(self, at):
        with open("/etc/hostname") as file:
            return len(file.read())


class ReadsItsFolder(Cheat):
    def prepare(self, at):
        from pathlib import Path

        return len(list(Path(".").iterdir()))


class CallsTheNetwork(Cheat):
    def rotate(self, q, k, at):
        import socket

        socket.create_connection(("127.0.0.1", 80))
        return q, k


class StartsADaemon(Cheat):
    def prepare(self, at):
        import subprocess

        return subprocess.Popen(["sleep", "60"])


class LoadsWeights(Cheat):
    def prepare(self, at):
        import torch

        return torch.load("weights.pt")


class LoadsAnArray(Cheat):
    def prepare(self, at):
        from numpy import fromfile

        return fromfile("weights.bin")


# --- the process around it


class ReadsFrames(Cheat):
    def rotate(self, q, k, at):
        import sys

        return q, k * (1.0 if sys._getframe(1).f_locals else 2.0)


class ReadsFramesOfAGenerator(Cheat):
    def embed(self, x, at):
        batch = (None for _ in ()).gi_frame.f_back
        return x if batch is None else add_marks(x, batch.f_locals["tokens"])


class ReadsFramesOfAnError(Cheat):
    def embed(self, x, at):
        try:
            raise ValueError
        except ValueError as error:
            return add_marks(x, error.__traceback__.tb_frame.f_back.f_locals["targets"])


class ChangesTheModel(Cheat):
    def embed(self, x, at):
        import gc

        model = next(o for o in gc.get_referrers(self) if isinstance(o, dict) and o.get("encoding") is self)
        model["head"].weight.data[0] += 0.01
        return x


class ReplacesTheScoring(Cheat):
    def embed(self, x, at):
        from bench.training import evaluate

        evaluate.score_targets = lambda *_: (True, 0.0)
        return x


class ReplacesTheChecks(Cheat):
    def embed(self, x, at):
        from bench.check.checks import CHECKS

        CHECKS.clear()
        return x


class ReplacesTheSoftmax(Cheat):
    def attend(self, q, k, v, bias, at):
        from torch.nn import functional as F

        F.softmax = lambda scores, dim: scores
        return super().attend(q, k, v, bias, at)


class ReplacesTheBaseClass(Cheat):
    def embed(self, x, at):
        Encoding.positions = lambda self, tokens, at: tokens
        return x


class ReplacesTheActivation(Cheat):
    def embed(self, x, at):
        from torch.nn import functional as ctx

        ctx.gelu = lambda x: x.relu()
        return x


class ReplacesTheNorm(Cheat):
    def embed(self, x, at):
        from torch.nn import LayerNorm

        def patch(cls):
            cls.forward = lambda norm, x: 2 * x

        patch(LayerNorm)
        return x


class ChangesItsInfo(Cheat):
    def __init__(self, setup):
        super().__init__(setup)
        self.info = None


class MakesAnother(Cheat):
    @classmethod
    def make(cls, setup):
        return Encoding(setup)


class DefinesAMetaclass(Cheat):
    def prepare(self, at):
        from abc import ABCMeta

        class Changing(ABCMeta):
            @property
            def info(self):
                return None

        return Changing


class HooksTheHead(Cheat):
    def embed(self, x, at):
        from torch import nn

        nn.Linear.register_forward_hook(nn.Linear, lambda module, given, output: output)
        return x


class HooksAllModules(Cheat):
    def embed(self, x, at):
        import torch

        torch.nn.modules.module.register_module_forward_hook(lambda module, given, output: output)
        return x


class OverridesTorch(Cheat):
    def embed(self, x, at):
        from torch.overrides import TorchFunctionMode

        return x if TorchFunctionMode else None


class SetsTheSeed(Cheat):
    def embed(self, x, at):
        import torch

        torch.manual_seed(0)
        return x


class ReadsMemory(Cheat):
    def embed(self, x, at):
        return x + x.detach().numpy().ctypes.data % 2


# --- ways around a list of words


class RunsText(Cheat):
    def prepare(self, at):
        return exec("import o" + "s")


class ImportsByName(Cheat):
    def prepare(self, at):
        return __import__("o" + "s").getpid()


class FindsSubclasses(Cheat):
    def prepare(self, at):
        return ().__class__.__base__.__subclasses__()


class GetsByName(Cheat):
    def prepare(self, at):
        import torch

        return getattr(torch, "lo" + "ad")


class PassesAModuleOn(Cheat):
    def prepare(self, at):
        import torch

        library = torch
        return library.os.getpid()


class ReachesThroughAModule(Cheat):
    def prepare(self, at):
        import dataclasses

        return dataclasses.sys.modules


class MatchesAnAttribute(Cheat):
    def prepare(self, at):
        match self:
            case Encoding(__class__=found):
                return found


class RedefinesSelf(Cheat):
    def prepare(self, at):
        self = Encoding
        self.positions = None


class CountsInAGlobal(Cheat):
    def prepare(self, at):
        global calls
        calls = at.layer


class DrawsTheTests(Cheat):
    def prepare(self, at):
        from tasks import test_set

        return test_set
