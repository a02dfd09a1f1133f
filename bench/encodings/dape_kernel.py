"""DAPE's network over pairs of a query and a key, with a hand-written backward pass.

P cells: for every query i, the keys 0 … i, and one key more if maps see neighbours (``extra`` = 1). All heads and hidden
features come first, [h, B, P], so that a map over heads is one product of two matrices. A row of cells ends at its extra key,
where inputs are 0, so the left neighbour of the next row's first key is 0 too.
"""

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

SLOPE = 0.01
"""Of LeakyReLU for negative inputs."""
CACHED, ON_GPU = 2**18, 2**26
"""Hidden features computed at a time: those that stay in a core's cache; on a GPU, where many small kernels take longer, a
quarter of a GiB of them in fp32. The backward pass computes them again, and their gradients."""


def cells_of(count: int, extra: int, device: torch.device) -> tuple[Int[Tensor, " P"], Float[Tensor, " P"]]:
    """Index of every cell in a matrix [T, T + extra], and 0 at extra keys, 1 elsewhere."""
    i, j = torch.tril_indices(count, count + extra, extra, device=device)
    return i * (count + extra) + j, (j <= i).float()


def with_neighbours(x: Float[Tensor, "h B P"], inside: Tensor | None) -> Float[Tensor, "h_taps B*P"]:
    """x, or for maps that see neighbours (``inside``): x at the left key, at the key itself and at the right key."""
    if inside is None:
        return x.flatten(1)
    x = x * inside
    out = x.new_zeros(3, *x.shape)
    out[0, ..., 1:], out[1] = x[..., :-1], x
    torch.mul(x[..., 1:], inside[:-1], out=out[2, ..., :-1])
    return out.view(-1, x.shape[1] * x.shape[2])


def from_neighbours(z: Float[Tensor, "h_taps B*P"], inside: Tensor | None, cells: int) -> Float[Tensor, "h B P"]:
    """z, or the sum of its first third at the left key, its second at the key itself and its last third at the right key.

    With the thirds exchanged, this is the transpose of ``with_neighbours``, except for the values at extra keys.
    """
    z = z.view(len(z), -1, cells)
    if inside is None:
        return z
    left, out, right = z.chunk(3)
    out[..., 1:].addcmul_(left[..., :-1], inside[:-1])
    out[..., :-1].add_(right[..., 1:])
    return out


def more_keys(x: Tensor, count: int, axis: int = -1) -> Tensor:
    """x with further zeros at the end of an axis; x itself, not the copy that ``F.pad`` makes, if ``count`` is 0."""
    return F.pad(x, (0, 0) * (-1 - axis) + (0, count)) if count else x


def exchanged(w: Float[Tensor, "h_taps hidden"], inside: Tensor | None) -> Tensor:
    """w with left and right neighbours exchanged."""
    return w if inside is None else w.unflatten(0, (3, -1)).flip(0).flatten(0, 1)


def parts(s_in: Float[Tensor, "h_taps B*P"], start: Float[Tensor, "hidden B*P"], cells: int) -> Iterator[tuple[slice, slice]]:
    """Columns of a few sequences at a time, and their columns of ``start``, which may be one for all sequences."""
    features = CACHED if s_in.device.type == "cpu" else ON_GPU
    step = max(1, features // (len(start) * cells)) * cells
    for first in range(0, s_in.shape[1], step):
        part = slice(first, min(first + step, s_in.shape[1]))
        yield part, part if start.shape == (len(start), s_in.shape[1]) else slice(None)


def hidden_features(s_in: Float[Tensor, "h_taps N"], w1: Float[Tensor, "h_taps hidden"], start: Tensor) -> Tensor:
    """LeakyReLU(W₁·s + start), [hidden, N]; ``start`` has N columns, or those of one sequence."""
    hidden = torch.mm(w1.mT, s_in)
    hidden.view(len(hidden), -1, start.shape[1]).add_(start[:, None])
    return F.leaky_relu_(hidden, SLOPE)


class PairNetwork(torch.autograd.Function):
    """b + W₂·LeakyReLU(W₁·[s; b] + b₁) + b₂ with s = scale·q·kᵀ, and 0 at later keys.

    W₁ is applied to s and to b separately, so that a b of all sequences is not repeated for each.

    Arguments:
        bias: b, [B or 1, H, T, T].
        w1: [hidden, 2H, taps]; w2: [H, hidden, taps]; taps are 1, or 3 for neighbours.
    """

    @staticmethod
    def forward(ctx, q, k, bias, w1, b1, w2, b2, scale):
        (b, h, t, d), taps = q.shape, w1.shape[2]
        keys = t + taps // 2
        cells, within = cells_of(t, taps // 2, q.device)
        inside = within.to(q.dtype) if taps > 1 else None
        w1_s, w1_b = (part.flatten(0, 1) for part in w1.permute(2, 1, 0).chunk(2, 1))  # [taps·H, hidden]
        w2 = w2.permute(2, 0, 1).flatten(0, 1)
        q = (q * scale).transpose(0, 1).reshape(h * b, t, d)
        k = more_keys(k.transpose(0, 1), keys - t, -2).reshape(h * b, keys, d)
        biases = more_keys(bias.transpose(0, 1), keys - t).flatten(2).index_select(-1, cells)
        s_in, b_in = (with_neighbours(x, inside) for x in (torch.bmm(q, k.mT).view(h, b, -1).index_select(-1, cells), biases))
        start = torch.addmm(b1[:, None], w1_b.mT, b_in)
        z = torch.empty_like(s_in)
        for part, of_start in parts(s_in, start, len(cells)):
            z[:, part] = torch.mm(w2, hidden_features(s_in[:, part], w1_s, start[:, of_start]))
        y = from_neighbours(z, inside, len(cells)).add_(b2[:, None, None]).add_(biases)
        ctx.save_for_backward(q, k, s_in, b_in, start, w1_s, w1_b, w2, cells, inside)
        ctx.scale = scale
        out = y.new_zeros(h, b, t * keys).index_copy_(-1, cells, y)
        return out.view(h, b, t, keys)[..., :t].transpose(0, 1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient: Float[Tensor, "B H T T"]):
        q, k, s_in, b_in, start, w1_s, w1_b, w2, cells, inside = ctx.saved_tensors
        b, h, t, _ = gradient.shape
        keys, width = k.shape[1], len(cells)

        def at_cells(x: Tensor) -> Tensor:
            return more_keys(x.transpose(0, 1), keys - t).reshape(h, -1, t * keys).index_select(-1, cells)

        def from_cells(x: Tensor) -> Float[Tensor, "h B T keys"]:
            x = x if inside is None else x * inside
            return x.new_zeros(h, x.shape[1], t * keys).index_copy_(-1, cells, x).view(h, -1, t, keys)

        dy = at_cells(gradient)
        dz = with_neighbours(dy, inside)  # exchanged
        dx, dstart, dw1_s, dw2 = torch.empty_like(dz), torch.zeros_like(start), torch.zeros_like(w1_s), torch.zeros_like(w2)
        w1_back, w2_back = exchanged(w1_s, inside), exchanged(w2, inside)
        for part, of_start in parts(s_in, start, width):
            hidden = hidden_features(s_in[:, part], w1_s, start[:, of_start])
            dw2.addmm_(dz[:, part], hidden.mT)
            dh = torch.mm(w2_back.mT, dz[:, part])
            dh = torch.ops.aten.leaky_relu_backward.grad_input(dh, hidden, SLOPE, True, grad_input=dh)
            dw1_s.addmm_(s_in[:, part], dh.mT)
            dx[:, part] = torch.mm(w1_back, dh)
            of_part = dstart[:, of_start]
            of_part += dh if of_part.shape == dh.shape else dh.view(len(dh), -1, width).sum(1)
        dw2 = exchanged(dw2, inside)
        ds = from_cells(from_neighbours(dx, inside, width)).flatten(0, 1)
        dq, dk = torch.bmm(ds, k).mul_(ctx.scale), torch.bmm(ds.mT, q)[:, :t]
        dq, dk = (x.view(h, b, t, -1).transpose(0, 1) for x in (dq, dk))
        db = None
        if ctx.needs_input_grad[2]:
            direct = dy if b_in.shape == s_in.shape else dy.sum(1, keepdim=True)
            db = from_cells(direct + from_neighbours(torch.mm(exchanged(w1_b, inside), dstart), inside, width))[
                ..., :t
            ].transpose(0, 1)
        dw1 = torch.cat([dw.unflatten(0, (-1, h)) for dw in (dw1_s, torch.mm(b_in, dstart.mT))], 1)
        db2 = (dy if inside is None else dy * inside).sum((1, 2))
        return dq, dk, db, dw1.permute(2, 1, 0), dstart.sum(1), dw2.unflatten(0, (-1, h)).permute(1, 2, 0), db2, None
