"""Slow references as in ``loop_oracles``, of encodings whose attention depends on content."""

import math
from collections.abc import Sequence

import torch
from loop_oracles import attend, grid, plain_scores, turned_score
from torch import Tensor


def stick_breaking_weights(z: Tensor) -> Tensor:
    """[B, H, T, T] from scores z: σ(z_ij) Π_{j<m<i} (1 − σ(z_im)) for j < i; on the diagonal the rest of the stick."""

    def cell(i: int, j: int) -> Tensor:
        weight = torch.sigmoid(z[:, :, i, j])
        for m in range(j + 1, i):
            weight = weight * (1 - torch.sigmoid(z[:, :, i, m]))
        return weight

    def with_remainder(i: int, j: int) -> Tensor:
        return cell(i, j) if j < i else 1 - sum((cell(i, m) for m in range(i)), 0 * z[:, :, 0, 0])

    return grid(z.shape[2], with_remainder)


def stick_breaking(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention by stick-breaking over earlier keys, the nearest first; the rest of the stick goes to v_i."""
    weights = stick_breaking_weights(plain_scores(q, k))
    return torch.stack([sum(weights[:, :, i, j, None] * v[:, :, j] for j in range(i + 1)) for i in range(q.shape[2])], 2)


def path_scores(q: Tensor, k: Tensor, w: Tensor, beta: Tensor) -> Tensor:
    """Scores q_iᵀ H_i H_{i−1} … H_{j+1} k_j / √d, H_t = I − β_t w_t w_tᵀ; w [B, H, T, d], beta [B, H, T]."""
    d = q.shape[-1]
    eye = torch.eye(d, dtype=q.dtype)
    H = [eye - beta[:, :, t, None, None] * w[:, :, t, :, None] * w[:, :, t, None, :] for t in range(q.shape[2])]

    def cell(i: int, j: int) -> Tensor:
        product = eye.expand_as(H[0])
        for t in range(i, j, -1):
            product = product @ H[t]
        return (q[:, :, i, None, :] @ product @ k[:, :, j, :, None])[..., 0, 0] / math.sqrt(d)

    return grid(q.shape[2], cell)


def forget_bias(gates: Tensor) -> Tensor:
    """Bias Σ_{l=j+1..i} log f_l; gates f [B, H, T]."""
    return grid(gates.shape[2], lambda i, j: sum((gates[:, :, m].log() for m in range(j + 1, i + 1)), 0 * gates[:, :, 0]))


def grape_ap(p: Tensor, slopes: Sequence[float]) -> Tensor:
    """Bias m_h Σ_{l=j+1..i} log σ(p_i·R_l p_l·√n/(|p_l| n)), R_l turns pairs (t, t + n/2) by −l; p [B, H, T, n]."""
    n = p.shape[-1]
    m = torch.tensor(slopes, dtype=p.dtype)

    def step(i: int, token: int) -> Tensor:
        a, b = p[:, :, token, : n // 2], p[:, :, token, n // 2 :]
        cos, sin = math.cos(token), math.sin(token)
        turned = torch.cat([a * cos + b * sin, b * cos - a * sin], -1) / ((p[:, :, token] ** 2).mean(-1, keepdim=True)).sqrt()
        return m * torch.log(torch.sigmoid((p[:, :, i] * turned).sum(-1) / n))

    return grid(p.shape[2], lambda i, j: sum((step(i, token) for token in range(j + 1, i + 1)), 0 * p[:, :, 0, 0]))


def entmax(s: Tensor) -> Tensor:
    """1.5-entmax over the last axis, by trying every size of the support (Peters, Niculae, Martins, 2019).

    With the n largest of z = s/2 in the support, Σ (z − τ)² = 1 has the smaller root τ = mean − √((1 − Σ (z − mean)²)/n).
    The right n is the largest whose τ is below the smallest z in the support.
    """

    def row(z: Tensor) -> Tensor:
        top = z.sort(descending=True).values
        tau = top[0] - 1
        for n in range(2, len(z) + 1):
            rest = 1 - ((top[:n] - top[:n].mean()) ** 2).sum()
            if rest >= 0 and (candidate := top[:n].mean() - (rest / n).sqrt()) <= top[n - 1]:
                tau = candidate
        return torch.relu(z - tau) ** 2

    return torch.stack([row(z) for z in s.reshape(-1, s.shape[-1]) / 2]).reshape(s.shape)


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


def selective_rope(q: Tensor, k: Tensor, phi: Tensor, thetas: Tensor) -> Tensor:
    """Scores with pair t rotated by thetas[t] Σ_{l=j+1..i} φ_l[t]; phi [B, H, T, d/2], thetas [d/2]."""

    def cell(i: int, j: int) -> Tensor:
        angle = sum((phi[:, :, m] for m in range(j + 1, i + 1)), 0 * phi[:, :, 0]) * thetas
        return turned_score(q[:, :, i], k[:, :, j], angle)

    return grid(q.shape[2], cell)


def carope_f(h: Tensor, weight: Tensor, offset: float) -> Tensor:
    """[B, H, T], f = 1 / (softplus(w·h + offset) + 1) of every token and head; h [B, T, D], weight [H, D]."""
    tokens = []
    for t in range(h.shape[1]):
        x = torch.stack([(h[:, t] * w).sum(-1) + offset for w in weight], -1)
        tokens.append(1 / (torch.log(1 + torch.exp(x)) + 1))
    return torch.stack(tokens, -1)


def carope(q: Tensor, k: Tensor, f: Tensor) -> Tensor:
    """Scores with pair t rotated by Σ_{l≤i} f_l^t for q_i and by Σ_{l≤j} f_l^t for k_j; f [B, H, T]."""
    pairs = range(q.shape[-1] // 2)
    phases = [
        torch.stack([sum((f[..., m] ** t for m in range(i + 1)), torch.zeros_like(f[..., 0])) for t in pairs], -1)
        for i in range(q.shape[2])
    ]
    return grid(q.shape[2], lambda i, j: turned_score(q[:, :, i], k[:, :, j], phases[i] - phases[j]))
