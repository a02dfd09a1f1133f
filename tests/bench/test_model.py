"""The decoder: against a slow model written anew from the formulas, what it asks of the attention kernel, how it starts."""

import math

import pytest
import torch
from helpers import NAMES, VOCABULARY, random_tokens, setup_of, spec_of, task_model, tiny_model
from torch import Tensor
from torch.nn import functional as F

import bench.encodings.kernel
import tasks
from bench import encodings
from bench.encodings import Encoding
from bench.encodings.nope import NoPE
from bench.model import Decoder, build

# --- what it computes


def layer_norm(x: list[float], weight: list[float], bias: list[float]) -> list[float]:
    mean = sum(x) / len(x)
    variance = sum((a - mean) ** 2 for a in x) / len(x)
    return [(a - mean) / math.sqrt(variance + 1e-5) * w + b for a, w, b in zip(x, weight, bias, strict=True)]


def times(matrix: list[list[float]], x: list[float]) -> list[float]:
    return [sum(m * a for m, a in zip(row, x, strict=True)) for row in matrix]


def added(x: list[float], y: list[float]) -> list[float]:
    return [a + b for a, b in zip(x, y, strict=True)]


def written_out(weights: dict[str, Tensor], tokens: list[int], layers: int, heads: int, slope=lambda head: 0.0):
    """Logits of one sequence in plain Python, from the weights alone: pre-norm blocks, exact GELU, causal softmax(q·k/√d)."""
    w = {name: tensor.tolist() for name, tensor in weights.items()}
    stream = [w["embedding.weight"][token] for token in tokens]
    width = len(stream[0])
    d = width // heads
    for n in range(layers):
        block = f"blocks.{n}."
        normed = [layer_norm(x, w[block + "attention_norm.weight"], w[block + "attention_norm.bias"]) for x in stream]
        projected = [times(w[block + "qkv.weight"], h) for h in normed]
        q, k, v = ([row[part * width : (part + 1) * width] for row in projected] for part in range(3))
        mixed = []
        for i in range(len(tokens)):
            joined = []
            for head in range(heads):
                own = slice(head * d, (head + 1) * d)
                scores = [
                    sum(a * b for a, b in zip(q[i][own], k[j][own], strict=True)) / math.sqrt(d) - slope(head) * (i - j)
                    for j in range(i + 1)
                ]
                exps = [math.exp(score) for score in scores]
                joined += [sum(e * v[j][own][c] for j, e in enumerate(exps)) / sum(exps) for c in range(d)]
            mixed.append(joined)
        stream = [added(x, times(w[block + "out.weight"], m)) for x, m in zip(stream, mixed, strict=True)]
        for i, x in enumerate(stream):
            up = times(w[block + "up.weight"], layer_norm(x, w[block + "mlp_norm.weight"], w[block + "mlp_norm.bias"]))
            activated = [u * 0.5 * (1 + math.erf(u / math.sqrt(2))) for u in up]
            stream[i] = added(x, times(w[block + "down.weight"], activated))
    return [times(w["head.weight"], layer_norm(x, w["norm.weight"], w["norm.bias"])) for x in stream]


SLOPES = {
    ("nope", 2): [0.0, 0.0],
    ("nope", 3): [0.0, 0.0, 0.0],
    ("alibi", 2): [1 / 16, 1 / 256],
    ("alibi", 3): [1 / 16, 1 / 256, 1 / 4],
}


@pytest.mark.parametrize(("name", "heads"), SLOPES)
def test_the_decoder_equals_one_written_out_in_plain_python(name, heads):
    model = tiny_model(name, heads=heads, train_tokens=5).double()
    with torch.no_grad():  # norms start at ones and zeros, which would hide a swap
        for key, parameter in model.named_parameters():
            if "norm" in key:
                parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(len(key))) * 0.3)
    tokens = random_tokens(2, 9)  # past L
    logits = model.logits(model(tokens, 9))
    for row, sequence in enumerate(tokens.tolist()):
        expected = written_out(model.state_dict(), sequence, 2, heads, SLOPES[name, heads].__getitem__)
        torch.testing.assert_close(logits[row], torch.tensor(expected, dtype=torch.float64), atol=1e-7, rtol=1e-7)


def test_hooks_are_called_in_their_order_and_see_where_they_are():
    calls = []

    class Spy(NoPE):
        def positions(self, tokens, at):
            calls.append(("positions", at.layer))
            assert (at.ids, at.shared, at.source) == (None, None, None)
            return torch.arange(tokens.shape[1]) + 5

        def prepare(self, at):
            calls.append(("prepare", at.layer))
            assert at.positions.tolist() == [5, 6, 7, 8]
            assert (at.shared, at.source) == (None, None)
            return "shared"

        def embed(self, x, at):
            calls.append(("embed", at.layer))
            assert (at.shared, at.source) == ("shared", None)
            self.norm = torch.nn.functional.layer_norm(x, x.shape[-1:])
            return x

        def rotate(self, q, k, at):
            calls.append(("rotate", at.layer))
            self.inside(q, at)
            return q, k

        def bias(self, q, k, at):
            calls.append(("bias", at.layer))
            self.inside(q, at)
            return None

        def attend(self, q, k, v, bias, at):
            calls.append(("attend", at.layer))
            self.inside(q, at)
            return super().attend(q, k, v, bias, at)

        def inside(self, q, at):
            assert q.shape == (2, 3, 4, 8)
            assert at.positions.tolist() == [5, 6, 7, 8]
            assert (at.nominal, at.shared, at.causal) == (77, "shared", True)
            assert at.generator is source
            torch.testing.assert_close(at.h, self.norm)

    source = torch.Generator()
    tiny_model(Spy)(random_tokens(2, 4), 77, source)
    once = ["embed", "rotate", "bias", "attend"]
    assert calls == [("positions", 0), ("prepare", 0), *((name, layer) for layer in range(2) for name in once)]


# --- what it asks of the kernel


@pytest.fixture
def kernel(monkeypatch) -> list[dict]:
    """Keywords of every call of scaled_dot_product_attention from here on, and the shape of q; it now serves all lengths."""
    monkeypatch.setattr(bench.encodings.kernel, "SHORT", 0)
    calls, real = [], F.scaled_dot_product_attention

    def spy(q, k, v, **keywords):
        calls.append(keywords | {"shape": q.shape})
        return real(q, k, v, **keywords)

    monkeypatch.setattr(F, "scaled_dot_product_attention", spy)
    return calls


ROWS, HEADS, LENGTH, LAYERS = 4, 3, 20, 3


@pytest.mark.parametrize("name", ["nope", "sinusoidal", "learned", "rope"])
def test_without_a_bias_no_mask_is_ever_made(name, kernel):
    tiny_model(name, HEADS, layers=LAYERS)(random_tokens(ROWS, LENGTH), LENGTH)
    assert len(kernel) == LAYERS
    for call in kernel:
        assert call["attn_mask"] is None
        assert call["is_causal"] is True
        assert call["scale"] == pytest.approx(8**-0.5)
        assert call["shape"] == (ROWS, HEADS, LENGTH, 8)


@pytest.mark.parametrize("name", ["alibi", "t5"])
def test_a_bias_becomes_one_mask_that_rows_and_layers_share(name, kernel):
    model = tiny_model(name, HEADS, layers=LAYERS)
    model(random_tokens(ROWS, LENGTH), LENGTH)
    assert len(kernel) == LAYERS
    mask = kernel[0]["attn_mask"]
    assert mask.shape == (HEADS, LENGTH, LENGTH)
    assert mask.untyped_storage().nbytes() == 4 * HEADS * LENGTH**2
    for call in kernel:
        assert call["attn_mask"] is mask, "made once"
        assert call["is_causal"] is False
        assert call["scale"] == pytest.approx(8**-0.5)
    later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    assert (mask[:, later] == -math.inf).all()
    assert mask[:, ~later].isfinite().all()


def test_biases_that_differ_by_layer_are_masked_each(kernel):
    class ByLayer(NoPE):
        def prepare(self, at):
            return torch.arange(2.0)[:, None, None].expand(2, 5, 5) + 1

        def bias(self, q, k, at):
            return at.shared[at.layer]

    tiny_model(ByLayer)(random_tokens(1, 5), 5)
    assert [call["attn_mask"][4, 0].item() for call in kernel] == [1, 2]


def test_a_model_without_causality_attends_everywhere(kernel):
    for name in ("nope", "alibi"):
        model = tiny_model(name)
        model.causal = False
        model(random_tokens(1, 5), 5)
    assert [call["is_causal"] for call in kernel] == [False] * 4
    assert kernel[0]["attn_mask"] is None
    assert kernel[2]["attn_mask"].isfinite().all()


def test_the_mask_has_the_dtype_that_autocast_gives_the_queries(kernel):
    model = tiny_model("t5")
    with torch.autocast("cpu", torch.bfloat16):
        model(random_tokens(2, 9), 9)
    assert [call["attn_mask"].dtype for call in kernel] == [torch.bfloat16] * 2


# --- how it starts


def backbone(model: Decoder) -> dict[str, Tensor]:
    return {name: p.detach() for name, p in model.named_parameters() if not name.startswith("encoding.")}


@pytest.mark.parametrize("name", NAMES)
def test_the_rest_of_the_model_starts_the_same_whatever_the_encoding(name):
    expected, found = backbone(tiny_model("nope", seed=7)), backbone(tiny_model(name, seed=7))
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[key], expected[key]) for key in expected)


@pytest.mark.parametrize("name", NAMES)
def test_the_start_hangs_on_the_seed_alone(name):
    first = tiny_model(name, seed=1).state_dict()
    torch.manual_seed(123)
    torch.randn(5)
    again, other = tiny_model(name, seed=1).state_dict(), tiny_model(name, seed=2).state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)
    matrices = [key for key, x in first.items() if x.ndim == 2 and not key.startswith("encoding.")]
    assert len(matrices) == 2 + 4 * 2
    assert not any(torch.equal(first[key], other[key]) for key in matrices)


@pytest.mark.parametrize("name", NAMES)
def test_building_a_model_draws_nothing_from_the_global_generator(name):
    before = torch.get_rng_state()
    tiny_model(name)
    assert torch.equal(torch.get_rng_state(), before)


def test_matrices_start_fan_in_normal():
    layers, width, mlp, symbols = 3, 96, 32, 500
    spec = spec_of(heads=12, layers=layers)
    assert (spec.width, spec.mlp_width) == (width, mlp)
    vocabulary = tasks.get("copying", "unique", symbols // 2).vocabulary
    model = build(spec, encodings.get("nope"), setup_of(spec, vocabulary=vocabulary), seed=0)
    residual = (2 * layers) ** -0.5
    wanted = {"embedding.weight": (1.0, (504, width)), "head.weight": (width**-0.5, (504, width))}
    for n in range(layers):
        wanted |= {
            f"blocks.{n}.qkv.weight": (width**-0.5, (3 * width, width)),
            f"blocks.{n}.out.weight": (width**-0.5 * residual, (width, width)),
            f"blocks.{n}.up.weight": (width**-0.5, (mlp, width)),
            f"blocks.{n}.down.weight": (mlp**-0.5 * residual, (width, mlp)),
        }
    for name, parameter in model.named_parameters():
        x = parameter.detach()
        if name not in wanted:
            assert "norm" in name, name
            assert torch.equal(x, torch.ones_like(x) if name.endswith("weight") else torch.zeros_like(x))
            continue
        std, shape = wanted.pop(name)
        assert x.shape == shape
        z, count = x / std, x.numel()
        # Five standard errors of the mean, the variance and the fourth moment of as many normal numbers.
        assert abs(z.mean()) < 5 / count**0.5
        assert abs(z.square().mean() - 1) < 5 * (2 / count) ** 0.5
        assert abs((z**4).mean() - 3) < 5 * (96 / count) ** 0.5
    assert not wanted


def test_the_backbone_has_no_biases_and_no_hidden_parameters():
    model = tiny_model("nope")
    per_block = 3 * 24 * 24 + 24 * 24 + 2 * 24 * 32 + 4 * 24
    assert sum(p.numel() for p in model.parameters()) == 2 * per_block + 2 * len(VOCABULARY) * 24 + 2 * 24
    assert not list(model.buffers())
    assert not [m for m in model.modules() if isinstance(m, torch.nn.Dropout)]


def test_settings_of_a_name_reach_the_encoding():
    assert tiny_model("t5(buckets=8,max_distance=20)").encoding.table.shape == (8, 3)


def test_logits_of_any_rows():
    task = tasks.get("copying", "repeat", 5)
    model = task_model("nope", task, 5)
    hidden = torch.randn(2, 3, 24)
    whole = model.logits(hidden)
    assert whole.shape == (2, 3, len(task.vocabulary))
    torch.testing.assert_close(model.logits(hidden.flatten(0, 1)[[4, 1]]), whole.flatten(0, 1)[[4, 1]])


def test_the_base_class_is_nope():
    class Base(Encoding):
        info = NoPE.info

    tokens = random_tokens(2, 9)
    assert torch.equal(tiny_model(Base)(tokens, 9), tiny_model("nope")(tokens, 9))


def test_no_encoding_is_given_cudnns_attention():
    """The one of torch's kernels that has given wrong gradients with a bias."""
    assert not torch.backends.cuda.cudnn_sdp_enabled()
    assert torch.backends.cuda.flash_sdp_enabled() and torch.backends.cuda.mem_efficient_sdp_enabled()
