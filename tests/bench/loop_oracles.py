"""Slow reference versions of the encodings, written from the formulas of the literature without sight of ``bench.encodings``.

One query and one key at a time, in float64, differentiable with respect to every tensor given. Throughout:

- q, k, v are [B, H, T, d]; i is the query's place, j ≤ i the key's; r = ids[i] − ids[j].
- ids are [T], or [B, T] for a different row each; integers or floats.
- "Bias" functions give [H, T, T] ([B, H, T, T] for ids [B, T]), to be added to q·k/√d.
- "Scores" functions give [B, H, T, T] with 1/√d already in them.
- Both hold 0 at later keys (j > i); ``attend(scores, v)`` looks at none of them.
- "Attention" functions give the outputs, [B, H, T, d].
- Rotary pairs are half-split: channel t with channel t + d/2.
"""

import functools
import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

# --- scaffolding


def grid(length: int, cell: Callable[[int, int], Tensor]) -> Tensor:
    """[..., T, T] of ``cell(i, j)`` [...], and 0 for later keys."""
    zero = torch.zeros_like(cell(0, 0))
    rows = [torch.stack([cell(i, j) if j <= i else zero for j in range(length)], -1) for i in range(length)]
    return torch.stack(rows, -2)


def distance(ids: Tensor, i: int, j: int) -> float:
    return float(ids[i]) - float(ids[j])


def by_row(function: Callable) -> Callable:
    """For ids [B, T]: the function on every row by itself, with that row of q, k, v and whatever else has a batch axis."""
    signature = inspect.signature(function)
    batched = {"q", "k", "v"} & set(signature.parameters)

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        given = signature.bind(*args, **kwargs).arguments
        if given["ids"].dim() == 1:
            return function(**given)
        rows = []
        for b, row in enumerate(given["ids"]):
            rows.append(function(**given | {"ids": row} | {name: given[name][b : b + 1] for name in batched}))
        return torch.cat(rows) if batched else torch.stack(rows)

    return wrapped


def plain_scores(q: Tensor, k: Tensor) -> Tensor:
    """Scores q·k/√d."""
    return grid(q.shape[2], lambda i, j: (q[:, :, i] * k[:, :, j]).sum(-1) / math.sqrt(q.shape[-1]))


def attend(scores: Tensor, v: Tensor, visible: Callable[[int, int], bool] = lambda i, j: True) -> Tensor:
    """Attention from scores [B, H, T, T]: softmax over the keys j ≤ i that are ``visible(i, j)``."""
    outputs = []
    for i in range(v.shape[2]):
        keys = [j for j in range(i + 1) if visible(i, j)]
        weights = torch.softmax(torch.stack([scores[:, :, i, j] for j in keys], -1), -1)
        outputs.append(sum(weights[..., n, None] * v[:, :, j] for n, j in enumerate(keys)))
    return torch.stack(outputs, 2)


def biased(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """Attention with a bias [H, T, T] or [B, H, T, T] added to q·k/√d."""
    return attend(plain_scores(q, k) + bias, v)


# --- biases [H, T, T]


def alibi_slopes(heads: int) -> list[float]:
    """2^(−8h/H), h = 1 … H, for powers of two; else those of the power below, then every other one of the power above."""
    power = 1
    while power * 2 <= heads:
        power *= 2
    slopes = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    above = [2 ** (-8 * h / (2 * power)) for h in range(1, 2 * power + 1)]
    return slopes + above[0::2][: heads - power]


@by_row
def alibi(ids: Tensor, slopes: Tensor) -> Tensor:
    """Bias −m_h r, slopes m [H]. With learned slopes give ``log_slopes.exp()``."""
    return grid(len(ids), lambda i, j: -slopes * distance(ids, i, j))


def half_alibi(ids: Tensor, slopes: Tensor, heads: int) -> Tensor:
    """Bias −m_h r in the first ``len(slopes)`` heads and 0 in the rest of the H."""
    return alibi(ids, torch.cat([slopes, torch.zeros(heads - len(slopes), dtype=slopes.dtype)]))


@by_row
def kerple_log(ids: Tensor, a: Tensor, p: Tensor) -> Tensor:
    """Bias −p_h ln(1 + a_h r); a, p [H], already positive."""
    return grid(len(ids), lambda i, j: -p * torch.log(1 + a * distance(ids, i, j)))


@by_row
def kerple_power(ids: Tensor, a: Tensor, p: Tensor) -> Tensor:
    """Bias −a_h r^{p_h}; a, p [H], already positive (p ≤ 2). At r = 0 the bias and its gradients are 0."""

    def cell(i: int, j: int) -> Tensor:
        r = distance(ids, i, j)
        return -a * torch.exp(p * math.log(r)) if r > 0 else 0 * a * p

    return grid(len(ids), cell)


@by_row
def sandwich(ids: Tensor, heads: int, dbar: int = 128, start: int = 0) -> Tensor:
    """Bias [Σ_t cos(r / 10000^{2t/d̄}) − d̄/2] / (8h/H) for heads h = 1 … H.

    The d̄/2 terms are t = start … start + d̄/2 − 1: start 0 (bias 0 at r = 0) or 1 (the paper's printed sum, NeMo).
    """

    def cell(i: int, j: int) -> Tensor:
        r = distance(ids, i, j)
        total = sum(math.cos(r / 10000 ** (2 * t / dbar)) for t in range(start, start + dbar // 2)) - dbar / 2
        return torch.tensor([total / (8 * h / heads) for h in range(1, heads + 1)], dtype=torch.float64)

    return grid(len(ids), cell)


@by_row
def fire(
    ids: Tensor,
    w1: Tensor,
    b1: Tensor,
    w2: Tensor,
    b2: Tensor,
    c: Tensor | float = 0.1,
    T0: Tensor | float = 512.0,
    eps: float = 1e-6,
) -> Tensor:
    """Bias MLP(ψ(r) / (ψ(max(T0, ids[i])) + eps)), ψ(x) = ln(|c| x + 1).

    Arguments:
        w1, b1, w2, b2: of ``nn.Linear``, [32, 1], [32], [H, 32], [H], with a ReLU between.
        c: a number.
        T0: the threshold itself, |mult·512| if it is learned so.
    """
    return grid(len(ids), lambda i, j: w2 @ torch.relu(w1[:, 0] * fire_argument(ids, i, j, c, T0, eps) + b1) + b2)


def fire_argument(ids: Tensor, i: int, j: int, c: Tensor | float, T0: Tensor | float, eps: float = 1e-6) -> Tensor:
    """What FIRE's MLP sees, a number."""
    c, T0 = (torch.as_tensor(x, dtype=torch.float64).reshape(()) for x in (c, T0))
    furthest = torch.maximum(T0, torch.tensor(float(ids[i]), dtype=torch.float64))
    return torch.log(c.abs() * distance(ids, i, j) + 1) / (torch.log(c.abs() * furthest + 1) + eps)


def t5_bucket(r: float, buckets: int = 32, max_distance: int = 128) -> int:
    """Causal bucket of a distance: exact up to half the buckets, then logarithmic."""
    exact = buckets // 2
    if r < exact:
        return int(r)
    return min(buckets - 1, exact + math.floor(math.log(r / exact) / math.log(max_distance / exact) * (buckets - exact)))


@by_row
def t5_bias(ids: Tensor, table: Tensor, bucket: Callable[[float], int] = t5_bucket) -> Tensor:
    """Bias E[bucket(r), h] from a table E [buckets, H]."""
    return grid(len(ids), lambda i, j: table[bucket(distance(ids, i, j))])


# --- DA-Transformer


@by_row
def da_factor(ids: Tensor, w: Tensor, v_: Tensor) -> Tensor:
    """[H, T, T], f(w_h r; v_h) with f(x; v) = (1 + e^v) / (1 + e^{v−x}); w, v_ [H]. Overflows where v − x > 700."""
    return grid(len(ids), lambda i, j: (1 + torch.exp(v_)) / (1 + torch.exp(v_ - w * distance(ids, i, j))))


def da_attention(q: Tensor, k: Tensor, v: Tensor, ids: Tensor, w: Tensor, v_: Tensor) -> Tensor:
    """Attention with scores ReLU(q·k) f(w_h r; v_h) / √d; w, v_ [H]."""
    scores = grid(q.shape[2], lambda i, j: torch.relu((q[:, :, i] * k[:, :, j]).sum(-1)) / math.sqrt(q.shape[-1]))
    return attend(scores * da_factor(ids, w, v_), v)


# --- relative embeddings


@by_row
def shaw(q: Tensor, k: Tensor, v: Tensor, ids: Tensor, aK: Tensor, aV: Tensor, clip: int) -> Tensor:
    """Attention with scores q_i·(k_j + aK[min(r, clip)]) / √d and values v_j + aV[min(r, clip)].

    Arguments:
        aK, aV: [clip + 1, d], row r for distance r, shared by the heads.
    """

    def row(i: int, j: int) -> int:
        return min(int(distance(ids, i, j)), clip)

    outputs = []
    for i in range(q.shape[2]):
        scores = [(q[:, :, i] * (k[:, :, j] + aK[row(i, j)])).sum(-1) / math.sqrt(q.shape[-1]) for j in range(i + 1)]
        weights = torch.softmax(torch.stack(scores, -1), -1)
        outputs.append(sum(weights[..., j, None] * (v[:, :, j] + aV[row(i, j)]) for j in range(i + 1)))
    return torch.stack(outputs, 2)


def halved_sinusoid(r: float, width: int, base: float = 10000.0) -> Tensor:
    """[width]: the sines of r·base^{−2t/width}, t = 0 … width/2 − 1, then the cosines."""
    angles = [r * base ** (-2 * t / width) for t in range(width // 2)]
    return torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles], dtype=torch.float64)


@by_row
def transformer_xl(
    q: Tensor, k: Tensor, v: Tensor, ids: Tensor, u: Tensor, v_: Tensor, W_R: Tensor, clamp_len: float | None = None
) -> Tensor:
    """Attention with scores [(q_i + u)·k_j + (q_i + v_)·(W_R R_r)] / √d.

    Arguments:
        u, v_: [H, d].
        W_R: [H·d, D], as the weight of an ``nn.Linear`` from width D; rows h·d … h·d + d − 1 are head h's.
        clamp_len: greatest r that R_r is told; None is none.
    """
    heads, length, d = q.shape[1:]

    def cell(i: int, j: int) -> Tensor:
        r = distance(ids, i, j)
        r = r if clamp_len is None else min(r, clamp_len)
        relative = (W_R @ halved_sinusoid(r, W_R.shape[1])).reshape(heads, d)
        return (((q[:, :, i] + u) * k[:, :, j]).sum(-1) + ((q[:, :, i] + v_) * relative).sum(-1)) / math.sqrt(d)

    return attend(grid(length, cell), v)


# --- attention that looks at content


def cope(q: Tensor, k: Tensor, v: Tensor, E: Tensor) -> Tensor:
    """Attention with scores s_ij + (1 − frac) q_i·E[⌊p⌋] + frac q_i·E[⌈p⌉].

    p = min(Σ_{m=j..i} σ(s_im), p_max − 1), both ends counted; s = q·k/√d, but q in front of E is unscaled. E [p_max, d].
    """
    s = plain_scores(q, k)

    def cell(i: int, j: int) -> Tensor:
        p = sum(torch.sigmoid(s[:, :, i, m]) for m in range(j, i + 1)).clamp(max=len(E) - 1)
        low, high = p.detach().floor().long(), p.detach().ceil().long()
        fraction = p - low
        below, above = ((q[:, :, i] * E[n]).sum(-1) for n in (low, high))
        return s[:, :, i, j] + (1 - fraction) * below + fraction * above

    return attend(grid(q.shape[2], cell), v)


def fox_bias(log_f: Tensor) -> Tensor:
    """Bias [B, H, T, T] Σ_{l=j+1..i} log f_l, from log_f [B, H, T]."""
    return grid(log_f.shape[2], lambda i, j: sum((log_f[:, :, m] for m in range(j + 1, i + 1)), 0 * log_f[:, :, 0]))


def fox(q: Tensor, k: Tensor, v: Tensor, log_f: Tensor) -> Tensor:
    """Attention of the forgetting transformer; log_f [B, H, T] are the logs of the gates."""
    return biased(q, k, v, fox_bias(log_f))


def stick_breaking_weights(z: Tensor) -> Tensor:
    """[B, H, T, T] from scores z: σ(z_ij) Π_{j<m<i} (1 − σ(z_im)) for j < i; on the diagonal the remainder of the stick."""

    def cell(i: int, j: int) -> Tensor:
        weight = torch.sigmoid(z[:, :, i, j])
        for m in range(j + 1, i):
            weight = weight * (1 - torch.sigmoid(z[:, :, i, m]))
        return weight

    def with_remainder(i: int, j: int) -> Tensor:
        return cell(i, j) if j < i else 1 - sum((cell(i, m) for m in range(i)), 0 * z[:, :, 0, 0])

    return grid(z.shape[2], with_remainder)


def stick_breaking(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention by stick-breaking over earlier keys, the nearest first; what is left of the stick goes to v_i."""
    weights = stick_breaking_weights(plain_scores(q, k))
    return torch.stack([sum(weights[:, :, i, j, None] * v[:, :, j] for j in range(i + 1)) for i in range(q.shape[2])], 2)


def path_scores(q: Tensor, k: Tensor, w: Tensor, beta: Tensor) -> Tensor:
    """Scores q_iᵀ H_i H_{i−1} … H_{j+1} k_j / √d, H_t = I − β_t w_t w_tᵀ; w [B, H, T, d] (as it is), beta [B, H, T]."""
    d = q.shape[-1]
    eye = torch.eye(d, dtype=q.dtype)
    H = [eye - beta[:, :, t, None, None] * w[:, :, t, :, None] * w[:, :, t, None, :] for t in range(q.shape[2])]

    def cell(i: int, j: int) -> Tensor:
        product = eye.expand_as(H[0])
        for t in range(i, j, -1):
            product = product @ H[t]
        return (q[:, :, i, None, :] @ product @ k[:, :, j, :, None])[..., 0, 0] / math.sqrt(d)

    return grid(q.shape[2], cell)


def path(q: Tensor, k: Tensor, v: Tensor, w: Tensor, beta: Tensor, gates: Tensor | None = None) -> Tensor:
    """Attention of PaTH; ``gates`` [B, H, T] are logs of forget gates, whose sum is scaled by 1/√d too, as in its code."""
    scores = path_scores(q, k, w, beta)
    return attend(scores if gates is None else scores + fox_bias(gates) / math.sqrt(q.shape[-1]), v)


def dape(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, W1: Tensor, b1: Tensor, W2: Tensor, b2: Tensor) -> Tensor:
    """Attention of DAPE v1: S + Z + W2 LeakyReLU(W1 [S; Z] + b1) + b2 at every (i, j), over heads; slope 0.01.

    Arguments:
        bias: Z, [H, T, T] or [B, H, T, T]. S is q·k/√d.
        W1, b1, W2, b2: of ``nn.Linear``, [32, 2H], [32], [H, 32], [H]; S's heads come first in the 2H.
    """
    S = plain_scores(q, k)
    Z = bias.expand_as(S)

    def cell(i: int, j: int) -> Tensor:
        x = torch.cat([S[:, :, i, j], Z[:, :, i, j]], -1) @ W1.T + b1
        x = torch.where(x > 0, x, 0.01 * x)
        return S[:, :, i, j] + Z[:, :, i, j] + x @ W2.T + b2

    return attend(grid(q.shape[2], cell), v)


def ssmax(q: Tensor, k: Tensor, v: Tensor, s: Tensor) -> Tensor:
    """Attention with scores s_h ln(i + 1) q·k/√d; s [H]."""
    plain = plain_scores(q, k)
    return attend(grid(q.shape[2], lambda i, j: s * math.log(i + 1) * plain[:, :, i, j]), v)


def ssmax_start(L: int) -> float:
    """Initial s for train length L: one over the mean of ln n, n = 1 … L."""
    return L / sum(math.log(n) for n in range(1, L + 1))


def logn(q: Tensor, k: Tensor, v: Tensor, train_tokens: int, always: bool = True) -> Tensor:
    """Attention with scores q·k/√d · ln(i + 1) / ln(train_tokens); that factor at least 1 unless ``always``."""
    plain = plain_scores(q, k)

    def cell(i: int, j: int) -> Tensor:
        factor = math.log(i + 1) / math.log(train_tokens)
        return plain[:, :, i, j] * (factor if always else max(1.0, factor))

    return attend(grid(q.shape[2], cell), v)


@by_row
def local(q: Tensor, k: Tensor, v: Tensor, ids: Tensor, window: float) -> Tensor:
    """Attention over the keys with r < window: ``window`` of them, the query's own included."""
    return attend(plain_scores(q, k), v, lambda i, j: distance(ids, i, j) < window)


@by_row
def blockwise(q: Tensor, k: Tensor, v: Tensor, ids: Tensor, block: int, previous: int = 1) -> Tensor:
    """Attention over the query's own block of ids and the ``previous`` ones before it (LeX: block L/2, 1; Llama 4: 0)."""
    return attend(plain_scores(q, k), v, lambda i, j: int(ids[i]) // block - int(ids[j]) // block <= previous)


# --- rotary family: scores


def paired(x: Tensor) -> Tensor:
    """Complex [..., d/2]: channel t is the real part, channel t + d/2 the imaginary one."""
    half = x.shape[-1] // 2
    return torch.complex(x[..., :half], x[..., half:])


def turned_score(q_i: Tensor, k_j: Tensor, angle: Tensor) -> Tensor:
    """Σ_t Re(q_t conj(k_t) e^{i·angle_t}) / √d: what is left of turning q by its position and k by its own."""
    turn = torch.complex(torch.cos(angle), torch.sin(angle))
    return (paired(q_i) * paired(k_j).conj() * turn).real.sum(-1) / math.sqrt(q_i.shape[-1])


@by_row
def rotary(q: Tensor, k: Tensor, ids: Tensor, thetas: Tensor) -> Tensor:
    """Scores with pair t turned by ids·thetas[t]; thetas [d/2]. For YaRN multiply them by m²."""
    return grid(q.shape[2], lambda i, j: turned_score(q[:, :, i], k[:, :, j], distance(ids, i, j) * thetas))


@by_row
def partial_rotary(q: Tensor, k: Tensor, ids: Tensor, thetas: Tensor) -> Tensor:
    """Scores with the first 2·len(thetas) channels turned, half-split among themselves, and the rest as they are."""
    width, d = 2 * len(thetas), q.shape[-1]

    def cell(i: int, j: int) -> Tensor:
        q_i, k_j = q[:, :, i], k[:, :, j]
        turn = torch.exp(1j * distance(ids, i, j) * thetas)
        turned = (paired(q_i[..., :width]) * paired(k_j[..., :width]).conj() * turn).real.sum(-1)
        return (turned + (q_i[..., width:] * k_j[..., width:]).sum(-1)) / math.sqrt(d)

    return grid(q.shape[2], cell)


@by_row
def xpos(q: Tensor, k: Tensor, ids: Tensor, base: float = 10000.0, scale_base: float = 512.0) -> Tensor:
    """Scores of RoPE whose pair t also decays by ζ_t^{r/scale_base}, ζ_t = (2t + 0.4d) / (1.4d)."""
    d = q.shape[-1]
    thetas = rope_frequencies(base, d)
    zeta = torch.tensor([(2 * t + 0.4 * d) / (1.4 * d) for t in range(d // 2)], dtype=torch.float64)

    def cell(i: int, j: int) -> Tensor:
        r = distance(ids, i, j)
        decay = zeta ** (r / scale_base)
        return turned_score(q[:, :, i] * torch.cat([decay, decay]), k[:, :, j], r * thetas)

    return grid(q.shape[2], cell)


@by_row
def pope(q: Tensor, k: Tensor, ids: Tensor, base: float, delta: Tensor) -> Tensor:
    """Scores Σ_c softplus(q_ic) softplus(k_jc) cos(r θ_c − δ_hc) / √d, θ_c = base^{−c/d}, c = 0 … d − 1; delta [H, d]."""
    d = q.shape[-1]
    thetas = torch.tensor([base ** (-c / d) for c in range(d)], dtype=torch.float64)

    def cell(i: int, j: int) -> Tensor:
        angle = distance(ids, i, j) * thetas - delta
        return (F.softplus(q[:, :, i]) * F.softplus(k[:, :, j]) * torch.cos(angle)).sum(-1) / math.sqrt(d)

    return grid(q.shape[2], cell)


def selective_rope(q: Tensor, k: Tensor, phi: Tensor, thetas: Tensor) -> Tensor:
    """Scores with pair t turned by thetas[t] Σ_{l=j+1..i} φ_l[t]; phi [B, H, T, d/2], thetas [d/2]."""

    def cell(i: int, j: int) -> Tensor:
        angle = sum((phi[:, :, m] for m in range(j + 1, i + 1)), 0 * phi[:, :, 0]) * thetas
        return turned_score(q[:, :, i], k[:, :, j], angle)

    return grid(q.shape[2], cell)


@by_row
def grape_a(q: Tensor, k: Tensor, ids: Tensor, slopes: Tensor, omega: Tensor, u: Tensor, normalise: bool = True) -> Tensor:
    """Bias [B, H, T, T], key-gated: −r slope_h softplus(ω_h) softplus(û_h·k_j/√d).

    Arguments:
        slopes, omega: [H].
        u: [H, d]; divided by its length here if ``normalise``.
    """
    unit = u / (u * u).sum(-1, keepdim=True).sqrt() if normalise else u

    def cell(i: int, j: int) -> Tensor:
        gate = F.softplus((unit * k[:, :, j]).sum(-1) / math.sqrt(k.shape[-1]))
        return -distance(ids, i, j) * slopes * F.softplus(omega) * gate

    return grid(k.shape[2], cell)


# --- frequency rules


def rope_frequencies(base: float, d: int) -> Tensor:
    """[d/2], base^{−2t/d}."""
    return torch.tensor([base ** (-2 * t / d) for t in range(d // 2)], dtype=torch.float64)


def interpolated(ids: Tensor, s: float) -> Tensor:
    """Position interpolation: ids / s, s = N/L."""
    return torch.tensor([float(p) / s for p in ids.flatten()], dtype=torch.float64).reshape(ids.shape)


def ntk_base(base: float, s: float, d: int) -> float:
    return base * s ** (d / (d - 2))


def dynamic_ntk_base(base: float, N: int, L: int, d: int, factor: float = 1.0) -> float:
    return base if N <= L else base * (factor * N / L - (factor - 1)) ** (d / (d - 2))


def yarn_range(base: float, d: int, L: float, beta_fast: float = 32, beta_slow: float = 1) -> tuple[int, int]:
    """The channels between which YaRN's ramp lies."""

    def channel(turns: float) -> float:
        return d * math.log(L / (2 * math.pi * turns)) / (2 * math.log(base))

    return max(math.floor(channel(beta_fast)), 0), min(math.ceil(channel(beta_slow)), d - 1)


def yarn_frequencies(base: float, d: int, L: float, s: float, beta_fast: float = 32, beta_slow: float = 1) -> Tensor:
    """[d/2]: θ in fast channels, θ/s in slow ones, linear in the channel between; the form of the code, not of the paper."""
    low, high = yarn_range(base, d, L, beta_fast, beta_slow)
    width = high - low if high != low else 0.001
    frequencies = []
    for t in range(d // 2):
        theta = base ** (-2 * t / d)
        ramp = min(max((t - low) / width, 0.0), 1.0)
        frequencies.append(ramp * theta / s + (1 - ramp) * theta)
    return torch.tensor(frequencies, dtype=torch.float64)


def yarn_temperature(s: float) -> float:
    """m, by which cos and sin are multiplied; scores so by m²."""
    return 0.1 * math.log(s) + 1 if s > 1 else 1.0


def longrope_temperature(s: float, L: float) -> float:
    return math.sqrt(1 + math.log(s) / math.log(L)) if s > 1 else 1.0


def llama4_temperature(position: int, floor_scale: float = 8192, scale: float = 0.1) -> float:
    """What the queries of Llama 4's layers without RoPE are multiplied by."""
    return 1 + scale * math.log(1 + math.floor((position + 1) / floor_scale))


def p_rope_frequencies(base: float, d: int, p: float) -> Tensor:
    """RoPE's, of which the fastest ⌊p·d/2⌋ stay and the rest are 0."""
    kept = math.floor(p * d / 2 + 1e-9)
    return torch.tensor([base ** (-2 * t / d) if t < kept else 0.0 for t in range(d // 2)], dtype=torch.float64)


def hope_frequencies(base: float, d: int, L: float) -> Tensor:
    """RoPE's, but 0 where θ < 2π/L: less than a full turn over the training length."""
    thetas = [base ** (-2 * t / d) for t in range(d // 2)]
    return torch.tensor([theta if theta >= 2 * math.pi / L else 0.0 for theta in thetas], dtype=torch.float64)


# --- position ids


def abacus_ids(symbols: Sequence[str], offset: int = 0) -> list[int]:
    """Of each symbol: its 1-based place inside its run of digits, plus the offset; 0 if it is no digit.

    Numbers are to be written least significant digit first; "plain" ones just get their place from the left.
    """
    ids: list[int] = []
    place = 0
    for symbol in symbols:
        place = place + 1 if symbol in set("0123456789") else 0
        ids.append(place + offset if place else 0)
    return ids


def coupling_ids(symbols: Sequence[str], start: int = 1) -> list[int]:
    """Position coupling of reversed addition, ``<bos> a + b <sep> sum <eos> <pad> …``, with start s ≥ 1.

    ``+`` and ``<sep>`` (which stands for ``=``) get s; the digit of significance t (1 the least) of either operand and of the
    sum gets s + t; ``<bos>``, ``<eos>`` and ``<pad>`` get 0, as in the code of HanseulJo/position-coupling. Cut anywhere, the
    ids of what is left stay the same.
    """
    ids: list[int] = []
    significance = 0
    for symbol in symbols:
        if symbol in ("<bos>", "<eos>", "<pad>"):
            ids.append(0)
        elif symbol in ("+", "<sep>"):
            significance = 0
            ids.append(start)
        elif symbol in set("0123456789"):
            significance += 1
            ids.append(start + significance)
        else:
            raise ValueError(f"{symbol!r} is no symbol of reversed addition")
    return ids


def are_randomised_ids(ids: Iterable[int], longest: int) -> bool:
    """Whether a row of ids is sorted, without repeats, and within 0 … longest − 1."""
    row = [int(p) for p in ids]
    return all(a < b for a, b in pairwise(row)) and all(0 <= p < longest for p in row)
