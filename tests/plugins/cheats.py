"""Encodings that break a rule each, for the tests of ``lprime check``; under each stands the check that has to tell."""

import gc
import os
import socket
import sys
from dataclasses import replace
from pathlib import Path

import kept
import torch
from torch import nn

from bench.encodings import Encoding, Info, Stage, distances

HONEST = Info(
    name="honest",
    family="none",
    title="A title",
    authors="Somebody",
    year=2026,
    link="https://example.org",
    formula="s_ij = q_i·k_j/√d",
    past="nothing changes",
    provenance="made for tests",
    shift_invariant=True,
)


def named(name: str, **changes: object) -> Info:
    return replace(HONEST, name=name, **changes)


def marked(x, numbers):
    """A number for each place, where the norm does not take it away again: in half of the channels."""
    half = torch.arange(x.shape[-1], device=x.device) < x.shape[-1] // 2
    return x + numbers.to(x)[..., None] * half


# --- causality


class PeeksThroughTheBias(Encoding):
    info = named("peeks_bias")

    def bias(self, q, k, at):
        return at.h.roll(-1, 1)[:, None, :, : k.shape[-1]] @ k.mT


class Peeks(Encoding):
    """Adds the next token's embedding where ``when`` says so."""

    def when(self, x, at):
        return at.layer == 0

    def embed(self, x, at):
        return x + 0.5 * x.roll(-1, 1) if self.when(x, at) else x


class PeeksThroughTheEmbedding(Peeks):
    info = named("peeks_embedding")


class PeeksInEvaluation(Peeks):
    info = named("peeks_evaluation")

    def when(self, x, at):
        return at.layer == 0 and not self.training


class PeeksInInference(Peeks):
    info = named("peeks_inference")

    def when(self, x, at):
        return at.layer == 0 and torch.is_inference_mode_enabled()


class PeeksUnderAutocast(Peeks):
    info = named("peeks_autocast")

    def when(self, x, at):
        return at.layer == 0 and torch.is_autocast_enabled("cpu")


class PeeksPastL(Peeks):
    info = named("peeks_past_l")

    def when(self, x, at):
        return at.layer == 0 and at.nominal > self.setup.train_tokens


class PeeksInLongSequences(Peeks):
    info = named("peeks_long")

    def when(self, x, at):
        return at.layer == 0 and x.shape[1] > self.setup.train_tokens


class PeeksAtOneLength(Peeks):
    info = named("peeks_one_length")

    def when(self, x, at):
        return at.layer == 0 and x.shape[1] == self.setup.train_tokens + 3


class PeeksAtOnePlace(Encoding):
    info = named("peeks_one_place")

    def embed(self, x, at):
        moved = x.clone()
        if x.shape[1] > 6:
            moved[:, 5] = moved[:, 5] + x[:, 6]
        return moved


class PeeksInTheLastLayer(Encoding):
    info = named("peeks_last_layer")

    def rotate(self, q, k, at):
        return (q.roll(-1, 2), k) if at.layer == self.setup.layers - 1 else (q, k)


class PeeksInAFourthLayer(Encoding):
    info = named("peeks_fourth_layer")

    def attend(self, q, k, v, bias, at):
        return super().attend(q, k, v.roll(-1, 2) if at.layer == 3 else v, bias, at)


class PeeksOnceTrained(Encoding):
    """A parameter that starts at zero hides what it lets through."""

    info = named("peeks_once_trained")

    def __init__(self, setup):
        super().__init__(setup)
        self.gate = nn.Parameter(torch.zeros(()))

    def embed(self, x, at):
        return x + self.gate * x.roll(-1, 1)


class ScalesByTheTensor(Encoding):
    """cutting: T is no length that was announced."""

    info = named("scales_by_tensor")

    def rotate(self, q, k, at):
        return q * q.shape[2] ** 0.5, k


class Averages(Encoding):
    """batches"""

    info = named("averages")

    def embed(self, x, at):
        return x - x.mean(0, keepdim=True) if at.layer == 0 else x


# --- memory


class KeepsAnAverage(Encoding):
    info = named("keeps_average")

    def __init__(self, setup):
        super().__init__(setup)
        self.mean = torch.zeros(())

    def embed(self, x, at):
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean()
        return x + self.mean


SEEN: list[float] = []


class KeepsInAGlobal(Encoding):
    info = named("keeps_in_global")

    def embed(self, x, at):
        SEEN.append(float(x.detach().mean()))
        return x


class KeepsInAnotherModule(Encoding):
    info = named("keeps_in_another_module")

    def embed(self, x, at):
        kept.keep(float(x.detach().mean()))
        return x


class Counts(Encoding):
    """Nothing shows until it has been called often."""

    info = named("counts")
    calls = [0]

    def embed(self, x, at):
        self.calls[0] += 1
        return -x if self.calls[0] > 100_000 else x


class KeepsTokens(Encoding):
    """memory, and tokens: what ``positions`` was given is looked at elsewhere."""

    info = named("keeps_tokens")
    kept: torch.Tensor

    def positions(self, tokens, at):
        self.kept = tokens
        return super().positions(tokens, at)

    def embed(self, x, at):
        return marked(x, self.kept.cumsum(1) % 2) if at.layer == 0 else x


# --- determinism, randomness, state dict


class HangsOnAnAddress(Encoding):
    info = named("hangs_on_address")

    def embed(self, x, at):
        return x * (1 + id(self) % 1000 / 1000)


class DrawsElsewhere(Encoding):
    info = named("draws_elsewhere", random=True)

    def embed(self, x, at):
        return x + 0.1 * torch.rand(())


class DrawsUndeclared(Encoding):
    info = named("draws_undeclared")

    def embed(self, x, at):
        return x + 0.1 * torch.rand((), generator=at.generator)


class DrawsNothing(Encoding):
    info = named("draws_nothing", random=True)


class HidesATable(Encoding):
    info = named("hides_table", shift_invariant=False)
    float_ids = False

    def __init__(self, setup):
        super().__init__(setup)
        self.table = torch.randn(2 * setup.longest_tokens, setup.width)

    def embed(self, x, at):
        return x + self.table[at.positions]


# --- tokens


class SolvesParity(Encoding):
    """Causal, but the answer is in the ids."""

    info = named("solves_parity", shift_invariant=False)

    def positions(self, tokens, at):
        return (tokens == 4).cumsum(1) % 2

    def embed(self, x, at):
        return marked(x, at.positions)


class SolvesInInference(SolvesParity):
    info = named("solves_in_inference")

    def positions(self, tokens, at):
        return super().positions(tokens, at) if torch.is_inference_mode_enabled() else Encoding.positions(self, tokens, at)


class LooksAhead(Encoding):
    info = named("looks_ahead")

    def positions(self, tokens, at):
        return tokens.roll(-1, 1)

    def embed(self, x, at):
        return marked(x, at.positions)


class SolvesRealPrompts(Encoding):
    """Only where a sequence looks like a test's, and only past L."""

    info = named("solves_real_prompts")

    def positions(self, tokens, at):
        ids = super().positions(tokens, at)
        if at.nominal > self.setup.train_tokens and bool((tokens[:, 0] == 1).all()) and bool((tokens == 2).any(1).all()):
            return ids + tokens
        return ids


class LooksAtRoles(Encoding):
    info = named("looks_at_roles")

    def embed(self, x, at):
        return x * (1 + self.setup.roles.index("special"))


class LooksAtSymbols(Encoding):
    info = named("looks_at_symbols")

    def embed(self, x, at):
        return x * (2 if "+" in self.setup.symbols else 1)


class DeclaresThatItLooks(SolvesParity):
    """Nothing wrong with it."""

    info = replace(SolvesParity.info, name="declares_that_it_looks", ranking="task-aware")


# --- surroundings


class ReadsTheEnvironment(Encoding):
    info = named("reads_environment")

    def bias(self, q, k, at):
        return q.new_full((), float(os.environ.get("CHEAT", "0")))


class ReadsAFile(Encoding):
    info = named("reads_file")

    def prepare(self, at):
        return len(Path("/etc/hostname").read_text()) if Path("/etc/hostname").exists() else os.listdir(".")


class ReadsWhenMade(Encoding):
    info = named("reads_when_made")

    def __init__(self, setup):
        super().__init__(setup)
        self.size = len(Path(__file__).with_suffix(".txt").parent.name + str(list(Path(__file__).parent.iterdir())))


class CallsTheNetwork(Encoding):
    info = named("calls_network")

    def rotate(self, q, k, at):
        socket.socket().close()
        return q, k


class LooksAtFrames(Encoding):
    info = named("looks_at_frames")

    def rotate(self, q, k, at):
        return q, k * (1.0 if sys._getframe(1).f_locals else 2.0)


# --- mutation


class WritesIntoTheStream(Encoding):
    info = named("writes_stream")

    def embed(self, x, at):
        return x.data.mul_(1.5)


class WritesInInference(Encoding):
    info = named("writes_inference")

    def attend(self, q, k, v, bias, at):
        if torch.is_inference_mode_enabled():
            v.zero_()
        return super().attend(q, k, v, bias, at)


class WritesIntoTheKeys(Encoding):
    info = named("writes_keys")

    def bias(self, q, k, at):
        k.data[:, :, 0] = 0
        return None


class MovesItsWeights(Encoding):
    info = named("moves_weights")

    def __init__(self, setup):
        super().__init__(setup)
        self.scale = nn.Parameter(torch.ones(()))

    def embed(self, x, at):
        if self.training:
            self.scale.data += 0.01
        return x * self.scale


class MovesTheModel(Encoding):
    info = named("moves_model")

    def embed(self, x, at):
        model = next(o for o in gc.get_referrers(self) if isinstance(o, dict) and o.get("encoding") is self)
        model["embedding" if "embedding" in model else "head"].weight.data[0] += 0.01
        return x


class TurnsTheOptimizer(Encoding):
    """learning"""

    info = named("turns_optimizer")

    def embed(self, x, at):
        frame = sys._getframe()
        while frame is not None:
            if "optimizer" in frame.f_locals:
                for group in frame.f_locals["optimizer"].param_groups:
                    group["betas"] = (0.5, 0.5)
            frame = frame.f_back
        return x


class ReplacesTheHarness(Encoding):
    info = named("replaces_harness")

    def __init__(self, setup):
        super().__init__(setup)
        import bench.evaluate

        bench.evaluate.correct = lambda *_: torch.ones(1, dtype=torch.bool)


# --- declaration, interface, devices, positions


class SaysNothing(Encoding):
    info = named("says_nothing", title="", link="example.org", year=1066)


class HasPositionalSettings(Encoding):
    info = named("has_positional_settings")

    def __init__(self, setup, base=3.0):
        super().__init__(setup)


class HasAStage(Encoding):
    info = named("has_stage")
    stage = Stage()


class GivesInfinity(Encoding):
    info = named("gives_infinity")

    def bias(self, q, k, at):
        return distances(at.positions).float().clamp(max=0).exp().log2().where(distances(at.positions) >= 0, float("-inf"))


class GivesAnotherShape(Encoding):
    info = named("gives_another_shape")

    def bias(self, q, k, at):
        return q.new_zeros(q.shape[1], q.shape[2] + 1)


class ForgetsTheDevice(Encoding):
    info = named("forgets_device")

    def prepare(self, at):
        return -torch.arange(at.positions.shape[-1]).float()

    def bias(self, q, k, at):
        return at.shared * q.new_zeros(q.shape[-2]).exp()


class DeclaresShifts(Encoding):
    info = named("declares_shifts")

    def embed(self, x, at):
        return marked(x, at.positions.to(x).sin())


class DeclaresNoShifts(Encoding):
    info = named("declares_no_shifts", shift_invariant=False)


class DeclaresFractions(Encoding):
    info = named("declares_fractions", shift_invariant=False)

    def __init__(self, setup):
        super().__init__(setup)
        self.table = nn.Parameter(torch.randn(setup.longest_tokens, setup.width))

    def embed(self, x, at):
        return x + self.table[at.positions]


# --- numbers, gradients, cost, learning


class Overflows(Encoding):
    info = named("overflows", shift_invariant=False)

    def embed(self, x, at):
        past = (at.positions.float() - self.setup.train_tokens).clamp(min=0)
        return x * (50 * past).exp()[..., None]


class RoundsPositions(Encoding):
    info = named("rounds_positions", shift_invariant=False)

    def rotate(self, q, k, at):
        return q * (100 * at.positions.to(q.dtype)).sin()[..., :, None], k


class HasAnUnusedParameter(Encoding):
    info = named("has_unused_parameter")

    def __init__(self, setup):
        super().__init__(setup)
        self.unused = nn.Parameter(torch.zeros(3))


class HasTooManyParameters(Encoding):
    info = named("has_too_many_parameters")

    def __init__(self, setup):
        super().__init__(setup)
        self.many = nn.Parameter(torch.zeros(1_000_000))

    def embed(self, x, at):
        return x + self.many.sum()


class SeesNothing(Encoding):
    info = named("sees_nothing")

    def attend(self, q, k, v, bias, at):
        return 0 * v


class Raises(Encoding):
    """Whatever a check meets."""

    info = named("raises")

    def rotate(self, q, k, at):
        raise RuntimeError("it broke")


# --- what only a process of its own survives


class Hangs(Encoding):
    info = named("hangs")

    def positions(self, tokens, at):
        while True:
            pass


class Hoards(Encoding):
    info = named("hoards")

    def positions(self, tokens, at):
        hoard = []
        while True:
            hoard.append(torch.ones(2**24))


class Dies(Encoding):
    info = named("dies")

    def positions(self, tokens, at):
        os.abort()
