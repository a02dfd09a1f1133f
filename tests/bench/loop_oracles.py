"""Slow reference implementations of encodings without a library counterpart, written from the formulas of the papers.

They loop over queries and keys, in float64, and are differentiable with respect to every tensor argument. Conventions:

- q, k, v are [B, H, T, d]; i is the index of the query, j ≤ i that of the key; r = ids[i] − ids[j].
- ids are [T], or [B, T] for different ids per row; integers or floats.
- "Bias" functions return [H, T, T] ([B, H, T, T] for ids [B, T]), to be added to q·k/√d.
- "Scores" functions return [B, H, T, T], 1/√d included.
- Both are 0 at later keys (j > i), which ``attend(scores, v)`` ignores.
- "Attention" functions return the outputs, [B, H, T, d].
- Rotary pairs are the channels t and t + d/2.
"""

import functools
import inspect
import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

# --- helpers


def grid(length: int, cell: Callable[[int, int], Tensor]) -> Tensor:
    """[..., T, T] of ``cell(i, j)`` [...], and 0 for later keys."""
    zero = torch.zeros_like(cell(0, 0))
    rows = [torch.stack([cell(i, j) if j <= i else zero for j in range(length)], -1) for i in range(length)]
    return torch.stack(rows, -2)


def distance(ids: Tensor, i: int, j: int) -> float:
    return float(ids[i]) - float(ids[j])


def by_row(function: Callable) -> Callable:
    """Extend a function to ids [B, T]: apply it to every row, with that row of q, k and v."""
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


@by_row
def alibi(ids: Tensor, slopes: Tensor) -> Tensor:
    """Bias −m_h r, slopes m [H]."""
    return grid(len(ids), lambda i, j: -slopes * distance(ids, i, j))


@by_row
def kerple_log(ids: Tensor, a: Tensor, p: Tensor) -> Tensor:
    """Bias −p_h ln(1 + a_h r); a, p [H], already positive."""
    return grid(len(ids), lambda i, j: -p * torch.log(1 + a * distance(ids, i, j)))


@by_row
def kerple_power(ids: Tensor, a: Tensor, p: Tensor) -> Tensor:
    """Bias −a_h r^{p_h}; a, p [H], already positive (p ≤ 2). At r = 0, bias and gradients are 0."""

    def cell(i: int, j: int) -> Tensor:
        r = distance(ids, i, j)
        return -a * torch.exp(p * math.log(r)) if r > 0 else 0 * a * p

    return grid(len(ids), cell)


@by_row
def sandwich(ids: Tensor, heads: int, dbar: int = 128) -> Tensor:
    """Bias [Σ_t cos(r / 10000^{2t/d̄}) − d̄/2] / (8h/H) for heads h = 1 … H, with t = 0 … d̄/2 − 1."""

    def cell(i: int, j: int) -> Tensor:
        r = distance(ids, i, j)
        total = sum(math.cos(r / 10000 ** (2 * t / dbar)) for t in range(dbar // 2)) - dbar / 2
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
        T0: the threshold.
    """
    return grid(len(ids), lambda i, j: w2 @ torch.relu(w1[:, 0] * fire_argument(ids, i, j, c, T0, eps) + b1) + b2)


def fire_argument(ids: Tensor, i: int, j: int, c: Tensor | float, T0: Tensor | float, eps: float = 1e-6) -> Tensor:
    """Input of FIRE's MLP, a number."""
    c, T0 = (torch.as_tensor(x, dtype=torch.float64).reshape(()) for x in (c, T0))
    furthest = torch.maximum(T0, torch.tensor(float(ids[i]), dtype=torch.float64))
    return torch.log(c.abs() * distance(ids, i, j) + 1) / (torch.log(c.abs() * furthest + 1) + eps)


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


# --- rotary family: scores


def paired(x: Tensor) -> Tensor:
    """Complex [..., d/2]: channel t is the real part, channel t + d/2 the imaginary one."""
    half = x.shape[-1] // 2
    return torch.complex(x[..., :half], x[..., half:])


def turned_score(q_i: Tensor, k_j: Tensor, angle: Tensor) -> Tensor:
    """Σ_t Re(q_t conj(k_t) e^{i·angle_t}) / √d: the score after rotating pair t by angle_t relative to each other."""
    turn = torch.complex(torch.cos(angle), torch.sin(angle))
    return (paired(q_i) * paired(k_j).conj() * turn).real.sum(-1) / math.sqrt(q_i.shape[-1])


@by_row
def rotary(q: Tensor, k: Tensor, ids: Tensor, thetas: Tensor) -> Tensor:
    """Scores with pair t rotated by ids·thetas[t]; thetas [d/2]."""
    return grid(q.shape[2], lambda i, j: turned_score(q[:, :, i], k[:, :, j], distance(ids, i, j) * thetas))


@by_row
def grape_a(q: Tensor, k: Tensor, ids: Tensor, slopes: Tensor, omega: Tensor, u: Tensor) -> Tensor:
    """Bias [B, H, T, T], key-gated: −r slope_h softplus(ω_h) softplus(û_h·k_j/√d), û = u/|u|; slopes, omega [H]; u [H, d]."""
    unit = u / (u * u).sum(-1, keepdim=True).sqrt()

    def cell(i: int, j: int) -> Tensor:
        gate = F.softplus((unit * k[:, :, j]).sum(-1) / math.sqrt(k.shape[-1]))
        return -distance(ids, i, j) * slopes * F.softplus(omega) * gate

    return grid(k.shape[2], cell)


# --- frequency rules


def rope_frequencies(base: float, d: int) -> Tensor:
    """[d/2], base^{−2t/d}."""
    return torch.tensor([base ** (-2 * t / d) for t in range(d // 2)], dtype=torch.float64)


def hope_frequencies(base: float, d: int, L: float) -> Tensor:
    """RoPE's, but 0 where θ < 2π/L (less than a full turn over the training length)."""
    thetas = [base ** (-2 * t / d) for t in range(d // 2)]
    return torch.tensor([theta if theta >= 2 * math.pi / L else 0.0 for theta in thetas], dtype=torch.float64)
