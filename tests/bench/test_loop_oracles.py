"""The loop oracles against golden numbers of the literature, and in limits where they must become something plain."""

import math

import loop_oracles as slow
import pytest
import torch
from helpers import qkv, slow_attention
from torch import Tensor

H, T, D = 3, 6, 8
IDS = torch.arange(T)
SPARSE = torch.tensor([[0, 1, 2, 5, 9, 40], [3, 4, 10, 11, 12, 90]])


def same(found: Tensor, expected, atol: float = 1e-10) -> None:
    expected = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(found, expected.expand_as(found), atol=atol, rtol=0)


def numbers(*shape: int, seed: int = 5) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()


def at(bias: Tensor, i: int = -1, j: int = 0) -> float:
    return bias[0, i, j].item()


def differentiable(output: Tensor, *inputs: Tensor) -> None:
    """Finite gradients, not all zero, reach every input."""
    for gradient in torch.autograd.grad((output * numbers(*output.shape, seed=9)).sum(), inputs):
        assert gradient.isfinite().all()
        assert gradient.abs().max() > 0


# --- biases


def test_alibi():
    assert slow.alibi_slopes(4) == [1 / 4, 1 / 16, 1 / 64, 1 / 256]
    assert slow.alibi_slopes(8) == [2.0**-h for h in range(1, 9)]
    assert slow.alibi_slopes(6) == [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]
    same(torch.tensor(slow.alibi_slopes(12)[8:]).double(), [0.70710678, 0.35355339, 0.17677670, 0.08838835], 1e-7)
    slopes = numbers(H)
    bias = slow.alibi(SPARSE, slopes)
    assert bias.shape == (2, H, T, T)
    same(bias[1, :, 5, 2], (-80 * slopes).tolist())
    same(bias[1, :, 2, 5], 0.0)
    half = slow.half_alibi(IDS, slopes[:2], H)
    same(half[:2], slow.alibi(IDS, slopes)[:2].detach())
    same(half[2], 0.0)
    differentiable(bias, slopes)


def test_kerple():
    one = torch.ones(1, dtype=torch.float64)
    ids = torch.arange(11)
    assert at(slow.kerple_log(ids, one, one), 1) == pytest.approx(-0.69314718, abs=1e-8)
    assert at(slow.kerple_log(ids, one, one)) == pytest.approx(-2.39789527, abs=1e-8)
    same(slow.kerple_power(ids, 2 * one, one), slow.alibi(ids, 2 * one))
    assert at(slow.kerple_power(ids, one, 2 * one)) == pytest.approx(-100)
    a, p = (numbers(H, seed=n).exp().detach().requires_grad_() for n in (1, 2))
    differentiable(slow.kerple_power(IDS, a, p), a, p)
    differentiable(slow.kerple_log(IDS, a, p), a, p)


def test_sandwich():
    bias = slow.sandwich(torch.arange(101), heads=8, dbar=128)
    for r, sum_of_cosines in {0: 64, 1: 62.09368381, 2: 57.38186055, 10: 42.82002290, 100: 30.54345470}.items():
        assert at(bias, r) == pytest.approx(sum_of_cosines - 64, abs=1e-7)
        assert bias[7, r, 0].item() == pytest.approx((sum_of_cosines - 64) / 8, abs=1e-7)
    assert at(slow.sandwich(torch.arange(11), heads=8, dbar=128, start=1)) == pytest.approx(44.6591 - 64, abs=1e-4)


@pytest.mark.parametrize(
    ("i", "r", "golden"), [(10, 10, 0.17525475), (10, 5, 0.10251746), (1000, 1000, 0.99999978), (1000, 10, 0.15019047)]
)
def test_fire_golden_numbers(i, r, golden):
    assert slow.fire_argument(torch.tensor([i - r, i]), 1, 0, 0.1, 512).item() == pytest.approx(
        golden, abs=3e-8
    )  # the source's are of float32


def test_fire_network():
    w1, b1, w2, b2 = numbers(32, 1), numbers(32), numbers(H, 32), numbers(H)
    c, T0 = (
        torch.tensor([0.1], dtype=torch.float64, requires_grad=True),
        torch.tensor(4.5, dtype=torch.float64, requires_grad=True),
    )
    bias = slow.fire(IDS, w1, b1, w2, b2, c, T0)
    assert bias.shape == (H, T, T)
    x = math.log(0.1 * 3 + 1) / (math.log(0.1 * 5 + 1) + 1e-6)
    same(bias[:, 5, 2], (w2 @ (w1[:, 0] * x + b1).relu() + b2).tolist())
    differentiable(bias, w1, b1, w2, b2, c, T0)
    network = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.ReLU(), torch.nn.Linear(32, H)).double()
    ours = slow.fire(IDS, network[0].weight, network[0].bias, network[2].weight, network[2].bias, 0.1, 512.0)
    same(ours[:, 5, 2], network(torch.tensor([math.log(1.3) / (math.log(52.2) + 1e-6)]).double()).tolist(), 1e-7)


def test_t5_buckets():
    first = [16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]
    starts = [r for r in range(1, 1000) if slow.t5_bucket(r) > slow.t5_bucket(r - 1)]
    assert starts == [*range(1, 16), *first]
    assert slow.t5_bucket(999) == 31
    table = numbers(32, H)
    same(slow.t5_bias(torch.tensor([0, 20]), table)[:, 1, 0], table[17].tolist())


# --- DA-Transformer


def test_da():
    zero = torch.zeros(1, dtype=torch.float64)
    assert at(slow.da_factor(torch.arange(2), zero + 1, zero)) == pytest.approx(1.4621171573, abs=1e-10)
    assert at(slow.da_factor(torch.arange(2), zero - 1, zero)) == pytest.approx(0.5378828427, abs=1e-10)
    assert at(slow.da_factor(torch.tensor([0, 300]), zero + 1, zero)) == pytest.approx(2)
    assert at(slow.da_factor(torch.tensor([0, 300]), zero - 1, zero)) == pytest.approx(0)
    w, v_ = numbers(H), numbers(H, seed=6)
    stable = (1 + v_.exp()) * torch.sigmoid(w * 3 - v_)
    same(slow.da_factor(IDS, w, v_)[:, 5, 2], stable.tolist())
    q, k, v = inputs = qkv(H, T)
    same(slow.da_attention(q.abs(), k.abs(), v, IDS, 0 * w, v_), slow_attention(q.abs(), k.abs(), v).detach())
    same(slow.da_attention(q.abs(), -k.abs(), v, IDS, w, v_)[:, :, 3], v[:, :, :4].mean(2).detach())
    differentiable(slow.da_attention(*inputs, SPARSE, w / 100, v_), *inputs, w, v_)


# --- relative embeddings


def test_shaw():
    q, _, _ = inputs = qkv(H, T)
    aK, aV = numbers(4, D), numbers(4, D, seed=6)
    same(slow.shaw(*inputs, IDS, 0 * aK, 0 * aV, 3), slow_attention(*inputs).detach())
    keys = slow.shaw(*inputs, IDS, aK, 0 * aV, 3)
    expected = slow_attention(*inputs, bias=lambda i, j: q[:, :, i] @ aK[min(i - j, 3)] / math.sqrt(D))
    same(keys, expected.detach())
    # With one row for all distances the value term is that row, whatever the weights.
    same(slow.shaw(*inputs, IDS, aK[:1], aV[:1], 0), (slow_attention(*inputs) + aV[0]).detach())
    differentiable(slow.shaw(*inputs, SPARSE, aK, aV, 3), *inputs, aK, aV)


def test_transformer_xl():
    q, k, v = inputs = qkv(H, T)
    u, v_, W_R = numbers(H, D), numbers(H, D, seed=6), numbers(H * D, 10, seed=7)
    same(slow.transformer_xl(*inputs, IDS, 0 * u, v_, 0 * W_R), slow_attention(*inputs).detach())
    same(slow.transformer_xl(*inputs, IDS, u, v_, 0 * W_R), slow_attention(q + u[:, None], k, v).detach())
    relative = torch.stack([(W_R @ slow.halved_sinusoid(r, 10)).reshape(H, D) for r in range(T)])
    expected = slow_attention(q + u[:, None], k, v, lambda i, j: ((q[:, :, i] + v_) * relative[i - j]).sum(-1) / math.sqrt(D))
    same(slow.transformer_xl(*inputs, IDS, u, v_, W_R), expected.detach())
    expected = slow_attention(
        q + u[:, None], k, v, lambda i, j: ((q[:, :, i] + v_) * relative[min(i - j, 2)]).sum(-1) / math.sqrt(D)
    )
    same(slow.transformer_xl(*inputs, IDS, u, v_, W_R, clamp_len=2), expected.detach())
    differentiable(slow.transformer_xl(*inputs, SPARSE, u, v_, W_R), *inputs, u, v_, W_R)


# --- attention that looks at content


def test_cope():
    q, k, v = inputs = qkv(H, T)
    E = numbers(3, D)
    same(slow.cope(*inputs, 0 * E), slow_attention(*inputs).detach())
    same(slow.cope(*inputs, E[:1]), slow_attention(*inputs).detach())  # one row adds the same to all keys
    same(slow.cope(*inputs, E[:1].expand(9, D)), slow_attention(*inputs).detach())
    # Keys of zero open every gate by half: p = (r + 1)/2.
    p = [min((r + 1) / 2, 2) for r in range(T)]
    rows = [E[math.floor(x)] * (1 - x % 1) + E[math.ceil(x)] * (x % 1) for x in p]
    same(slow.cope(q, 0 * k, v, E), slow_attention(q, 0 * k, v, lambda i, j: q[:, :, i] @ rows[i - j]).detach())
    differentiable(slow.cope(*inputs, E), *inputs, E)


def test_fox():
    inputs = qkv(H, T)
    log_f = torch.nn.functional.logsigmoid(numbers(2, H, T))
    same(slow.fox(*inputs, 0 * log_f), slow_attention(*inputs).detach())
    slopes = numbers(H)
    same(slow.fox_bias((-slopes)[:, None].expand(2, H, T)), slow.alibi(IDS, slopes).detach())
    same(slow.fox_bias(log_f)[:, :, 4, 1], (log_f[:, :, 2] + log_f[:, :, 3] + log_f[:, :, 4]).detach())
    differentiable(slow.fox(*inputs, log_f), *inputs, log_f)


def test_stick_breaking():
    q, k, v = inputs = qkv(H, T)
    weights = slow.stick_breaking_weights(torch.zeros(1, 1, 5, 5, dtype=torch.float64))
    same(weights[0, 0, 4], [0.0625, 0.125, 0.25, 0.5, 0.0625])
    z = slow.plain_scores(q, k)
    weights = slow.stick_breaking_weights(z)
    same(weights.sum(-1), 1.0)
    logs = torch.nn.functional.logsigmoid
    same(weights[:, :, 4, 1].log(), (logs(z[:, :, 4, 1]) + logs(-z[:, :, 4, 2]) + logs(-z[:, :, 4, 3])).detach())
    output = slow.stick_breaking(*inputs)
    same(output[:, :, 0], v[:, :, 0].detach())
    differentiable(output, *inputs)


def test_path():
    q, k, _ = inputs = qkv(H, T)
    w = torch.nn.functional.normalize(numbers(2, H, T, D), dim=-1)
    beta = 2 * torch.sigmoid(numbers(2, H, T))
    same(slow.path(*inputs, w, 0 * beta), slow_attention(*inputs).detach())
    same(
        slow.path(*inputs, w, 0 * beta, -torch.ones(2, H, T).double()),
        slow_attention(*inputs, lambda i, j: (j - i) / math.sqrt(D)).detach(),
    )
    # The query carried down the keys, and full reflections, which keep lengths.
    i, carried = 5, q[:, :, 5]
    for t in range(5, 1, -1):
        carried = carried - beta[:, :, t, None] * (carried * w[:, :, t]).sum(-1, keepdim=True) * w[:, :, t]
    scores = slow.path_scores(q, k, w, beta)
    same(scores[:, :, i, 1], ((carried * k[:, :, 1]).sum(-1) / math.sqrt(D)).detach())
    same(scores[:, :, i, i], slow.plain_scores(q, k)[:, :, i, i].detach())
    differentiable(slow.path(*inputs, w, beta), *inputs, w, beta)


def test_dape():
    inputs = qkv(H, T)
    bias = slow.alibi(IDS, numbers(H))
    W1, b1, W2, b2 = numbers(32, 2 * H), numbers(32), numbers(H, 32), numbers(H)
    plain = slow.biased(*inputs, bias)
    same(slow.dape(*inputs, bias, W1, b1, 0 * W2, b2), plain.detach())
    # A network that hands the bias through: its parts over and under zero recombine.
    eye, nothing = torch.eye(H).double(), torch.zeros(H, H).double()
    up = torch.cat([torch.cat([nothing, eye], 1), torch.cat([nothing, -eye], 1)])
    down = torch.cat([eye, -eye], 1) / 1.01
    zeros = torch.zeros(2 * H).double()
    same(slow.dape(*inputs, bias, up, zeros, down, zeros[:H]), slow.biased(*inputs, 2 * bias).detach())
    differentiable(slow.dape(*inputs, bias, W1, b1, W2, b2), *inputs, W1, b1, W2)


def test_scaling_by_length():
    q, k, v = inputs = qkv(H, T)
    s = numbers(H)
    scaled = slow.ssmax(*inputs, s)
    same(scaled[:, :, 0], v[:, :, 0].detach())
    q_scaled = q * (s[:, None] * torch.arange(1, T + 1).double().log())[..., None]
    same(scaled, slow_attention(q_scaled, k, v).detach())
    same(slow.logn(*inputs, 4)[:, :, 3], slow_attention(*inputs)[:, :, 3].detach())
    same(slow.logn(*inputs, 4), slow.ssmax(*inputs, torch.full((H,), 1 / math.log(4)).double()).detach(), 1e-6)
    assert [slow.ssmax_start(L) for L in (40, 64, 1024)] == pytest.approx([0.36258, 0.31194, 0.16847], abs=1e-5)
    test_only = slow.logn(*inputs, 4, always=False)
    same(test_only[:, :, :4], slow_attention(*inputs)[:, :, :4].detach())
    same(test_only[:, :, 4:], slow.logn(*inputs, 4)[:, :, 4:].detach())
    differentiable(scaled, *inputs[:2], s)


def test_windows():
    inputs = qkv(H, T)
    q, k, v = inputs
    same(slow.local(*inputs, IDS, T), slow_attention(*inputs).detach())
    same(slow.local(*inputs, IDS, 1), v.detach())
    last_two = slow_attention(q[:, :, 4:], k[:, :, 4:], v[:, :, 4:])[:, :, 1]
    same(slow.local(*inputs, IDS, 2)[:, :, 5], last_two.detach())
    same(slow.blockwise(*inputs, IDS, 4, previous=0)[:, :, 4:], slow_attention(*(x[:, :, 4:] for x in inputs)).detach())
    same(slow.blockwise(*inputs, IDS, 4), slow_attention(*inputs).detach())
    differentiable(slow.local(*inputs, SPARSE, 3), *inputs)


# --- rotary family


def turned(x: Tensor, angles: Tensor) -> Tensor:
    """Half-split rotation of x [..., d] by angles [..., d/2], with real numbers."""
    a, b = x.chunk(2, -1)
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1)


def test_rotary():
    q, k, _ = qkv(H, T)
    thetas = slow.rope_frequencies(10000, D)
    expected = slow.plain_scores(*(turned(x, SPARSE[:, None, :, None] * thetas) for x in (q, k)))
    same(slow.rotary(q, k, SPARSE, thetas), expected.detach())
    same(slow.rotary(q, k, IDS, 0 * thetas), slow.plain_scores(q, k).detach())
    same(slow.partial_rotary(q, k, IDS, thetas), slow.rotary(q, k, IDS, thetas).detach())
    same(slow.partial_rotary(q, k, IDS, thetas[:0]), slow.plain_scores(q, k).detach())
    quarter = slow.rope_frequencies(100, 4)
    parts = [torch.cat([turned(x[..., :4], IDS[:, None] * quarter), x[..., 4:]], -1) for x in (q, k)]
    same(slow.partial_rotary(q, k, IDS, quarter), slow.plain_scores(*parts).detach())
    learned = thetas.clone().requires_grad_()
    differentiable(slow.rotary(q, k, IDS, learned), q, k, learned)


def test_xpos():
    q, k, _ = qkv(H, T)
    same(slow.xpos(q, k, SPARSE, scale_base=1e15), slow.rotary(q, k, SPARSE, slow.rope_frequencies(10000, D)).detach())
    zeta = torch.tensor([(2 * t + 0.4 * D) / (1.4 * D) for t in range(D // 2)] * 2).double()
    centred = torch.arange(T)[:, None] - 3
    angles = IDS[:, None] * slow.rope_frequencies(10000, D)
    expected = slow.plain_scores(turned(q, angles) * zeta ** (centred / 5), turned(k, angles) * zeta ** (-centred / 5))
    same(slow.xpos(q, k, IDS, scale_base=5), expected.detach(), 1e-6)


def test_pope():
    q, k, _ = qkv(H, T)
    softplus, delta = torch.nn.functional.softplus, numbers(H, D)
    same(slow.pope(q, k, 0 * IDS, 10000, 0 * delta), slow.plain_scores(softplus(q), softplus(k)).detach())
    angles = IDS[:, None] * 100.0 ** (-torch.arange(D).double() / D)
    turn = delta[:, None]
    doubled_q = torch.cat([softplus(q) * angles.cos(), softplus(q) * angles.sin()], -1)
    doubled_k = torch.cat([softplus(k) * (angles + turn).cos(), softplus(k) * (angles + turn).sin()], -1)
    same(slow.pope(q, k, IDS, 100, delta), math.sqrt(2) * slow.plain_scores(doubled_q, doubled_k).detach())
    differentiable(slow.pope(q, k, SPARSE, 100, delta), q, k, delta)


def test_selective_rope():
    q, k, _ = qkv(H, T)
    thetas, phi = slow.rope_frequencies(500000, D), numbers(2, H, T, D // 2)
    same(slow.selective_rope(q, k, torch.ones_like(phi), thetas), slow.rotary(q, k, IDS, thetas).detach())
    expected = slow.plain_scores(*(turned(x, thetas * phi.cumsum(2)) for x in (q, k)))
    same(slow.selective_rope(q, k, phi, thetas), expected.detach())
    differentiable(slow.selective_rope(q, k, phi, thetas), q, k, phi)


def test_grape_a():
    q, k, _ = qkv(H, T)
    slopes, omega, u = torch.tensor(slow.alibi_slopes(H)).double(), numbers(H), numbers(H, D)
    one = math.log(math.e - 1)  # softplus of it is 1
    no_gate = slow.grape_a(q, 0 * k, IDS, slopes, torch.full((H,), one).double(), u) / math.log(2)
    same(no_gate, slow.alibi(IDS, slopes), 1e-6)
    same(slow.grape_a(q, k, SPARSE, slopes, omega, 3 * u), slow.grape_a(q, k, SPARSE, slopes, omega, u).detach())
    differentiable(slow.grape_a(q, k, SPARSE, slopes, omega, u), k, omega, u)


# --- frequency rules


def test_frequencies_golden_numbers():
    for d, golden in {
        64: [20452.2287, 41829.3659, 85550.3759],
        32: [20945.8825, 43872.9992, 91895.8684],
        128: [20221.2617, 40889.9424, 82684.6226],
    }.items():
        assert [slow.ntk_base(10000, s, d) for s in (2, 4, 8)] == pytest.approx(golden, abs=1e-4)
    assert slow.dynamic_ntk_base(10000, 4096, 2048, 64, factor=2) == pytest.approx(31082.2367, abs=1e-4)
    assert slow.dynamic_ntk_base(10000, 8192, 2048, 64, factor=2) == pytest.approx(74534.8303, abs=1e-4)
    assert slow.dynamic_ntk_base(10000, 2048, 2048, 64, factor=2) == 10000
    for d, L, channels in [(128, 4096, (20, 46)), (64, 2048, (8, 21)), (64, 64, (0, 9)), (32, 40, (0, 4))]:
        assert slow.yarn_range(10000, d, L) == channels
    temperatures = {1: 1, 2: 1.06931472, 4: 1.13862944, 8: 1.20794415, 16: 1.27725887, 32: 1.34657359}
    assert [slow.yarn_temperature(s) for s in temperatures] == pytest.approx(list(temperatures.values()), abs=1e-8)
    assert slow.longrope_temperature(4, 4096) == pytest.approx(1.08012345, abs=1e-8)
    assert slow.longrope_temperature(8, 4096) == pytest.approx(1.11803399, abs=1e-8)
    assert [slow.llama4_temperature(p) for p in (8190, 8191, 24575)] == pytest.approx([1, 1.06931472, 1.13862944], abs=1e-8)


def test_frequencies_at_their_ends():
    plain = slow.rope_frequencies(10000, 64)
    yarn = slow.yarn_frequencies(10000, 64, 2048, 4)
    same(yarn[:9], plain[:9])
    same(yarn[21:], plain[21:] / 4)
    same(slow.yarn_frequencies(10000, 64, 2048, 1), plain)
    same(slow.p_rope_frequencies(10000, 64, 1), plain)
    same(slow.p_rope_frequencies(10000, 64, 0), 0.0)
    same(slow.p_rope_frequencies(10000, 64, 0.75)[24:], 0.0)
    same(slow.p_rope_frequencies(10000, 64, 0.75)[:24], plain[:24])
    kept = {
        64: {20: 5, 40: 7, 64: 9, 128: 11, 512: 16},
        32: {20: 3, 40: 4, 64: 5, 128: 6, 512: 8},
        16: {20: 2, 40: 2, 64: 3, 128: 3, 512: 4},
    }
    for d, by_length in kept.items():
        for L, pairs in by_length.items():
            assert slow.hope_frequencies(10000, d, L).count_nonzero() == pairs
    q, k, _ = qkv(H, T)
    thetas = slow.rope_frequencies(10000, D)
    same(slow.rotary(q, k, slow.interpolated(SPARSE, 2.5), thetas), slow.rotary(q, k, SPARSE, thetas / 2.5).detach())


@pytest.mark.parametrize(("d", "L"), [(64, 2048), (64, 64), (32, 40), (16, 64)])
def test_yarn_against_transformers(d, L):
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    rope = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0, "original_max_position_embeddings": L}
    config = LlamaConfig(hidden_size=d, num_attention_heads=1, max_position_embeddings=4 * L, rope_parameters=rope)
    frequencies, temperature = ROPE_INIT_FUNCTIONS["yarn"](config, torch.device("cpu"))
    same(frequencies.double(), slow.yarn_frequencies(10000, d, L, 4), 1e-6)
    assert temperature == pytest.approx(slow.yarn_temperature(4))


# --- position ids


def test_abacus_ids():
    symbols = ["<bos>", "5", "2", "8", "+", "8", "5", "<sep>", "3", "8", "9", "<eos>", "<pad>"]
    assert slow.abacus_ids(symbols) == [0, 1, 2, 3, 0, 1, 2, 0, 1, 2, 3, 0, 0]
    assert slow.abacus_ids(symbols, 7) == [0, 8, 9, 10, 0, 8, 9, 0, 8, 9, 10, 0, 0]


def test_coupling_ids():
    symbols = ["<bos>", "5", "2", "8", "+", "8", "5", "<sep>", "3", "8", "9", "<eos>", "<pad>"]
    ids = slow.coupling_ids(symbols)
    assert ids == [0, 2, 3, 4, 1, 2, 3, 1, 2, 3, 4, 0, 0]
    assert slow.coupling_ids(symbols, 4) == [p and p + 3 for p in ids]
    for cut in range(len(symbols)):
        assert slow.coupling_ids(symbols[:cut]) == ids[:cut]


def test_randomised_ids():
    assert slow.are_randomised_ids([0, 3, 9], 10)
    assert slow.are_randomised_ids(torch.tensor([4]), 5)
    for bad in ([0, 3, 10], [-1, 3], [3, 3], [3, 2]):
        assert not slow.are_randomised_ids(bad, 10)
