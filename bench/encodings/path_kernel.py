"""What PaTH adds to q·k, with a hand-written backward pass."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.linalg import solve_triangular
from torch.nn import functional as F

MULTIPLE = 8
"""Tokens are padded to a multiple: products of odd sizes take up to twice as long on a CPU."""
NORM_EPS = 1e-6


def reflection(x: Float[Tensor, "B H T d"], z: Float[Tensor, "B H T 1"]) -> tuple[Tensor, Tensor, Tensor]:
    """w = a/√(|a|² + ε) with a = silu(x), 1/√(|a|² + ε), and β = 2σ(z)."""
    a = F.silu(x)
    inverse = (a.square().sum(-1, keepdim=True) + NORM_EPS).rsqrt()
    return a * inverse, inverse, 2 * z.sigmoid()


def stack_padded(x: Float[Tensor, "B H T e"], keys: int) -> Float[Tensor, "B*H keys e"]:
    """Stack heads and rows into one contiguous batch of matrices, padded with rows of zeros."""
    b, h, t, e = x.shape
    out = x.new_empty(b, h, keys, e)
    out[:, :, :t] = x
    out[:, :, t:] = 0
    return out.view(b * h, keys, e)


class ReflectedScores(torch.autograd.Function):
    """−S U with S = tril(Q Vᵀ), U = (I + M)⁻¹ P, M = tril₋₁(W Vᵀ), P = tril₋₁(W Kᵀ); w and β of ``reflection``, v = βw.

    All T × T matrices but S are stored transposed, since solving from the right is faster. For a gradient G of the output,
    dS = −G Uᵀ, dP = (I + M)⁻ᵀ (−Sᵀ G) and dM = −dP Uᵀ, each restricted to its triangle.
    """

    @staticmethod
    def forward(ctx, q, k, x, z, scale):
        b, h, t, _ = q.shape
        rows = t + -t % MULTIPLE
        q, k, x, z = (stack_padded(part, rows) for part in (q, k, x, z))
        w, inverse, beta = reflection(x, z)
        v = beta * w
        q.mul_(scale)
        eye = torch.eye(rows, dtype=q.dtype, device=q.device)
        later = q.new_ones(rows, rows).triu_(1)
        seen = later.mT.neg() - eye  # −1 where query i sees key j
        # The solver reads only the part above the diagonal.
        solved = solve_triangular(torch.bmm(v, w.mT), eye, upper=True, left=False, unitriangular=True)
        u = torch.bmm(torch.bmm(k, w.mT).mul_(later), solved)
        s = torch.bmm(q, v.mT).mul_(seen)
        ctx.save_for_backward(x, inverse, beta, q, k, w, v, solved, u, s, later, seen)
        ctx.scale = scale
        return torch.bmm(s, u.mT).view(b, h, rows, rows)[..., :t, :t]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient: Float[Tensor, "B H T T"]):
        x, inverse, beta, q, k, w, v, solved, u, s, later, seen = ctx.saved_tensors
        b, h, t, _ = gradient.shape
        rows = q.shape[1]
        gradient = F.pad(gradient, (0, rows - t, 0, rows - t)).view(b * h, rows, rows)
        ds = torch.bmm(gradient, u).mul_(seen)
        dp = torch.bmm(torch.bmm(gradient.mT, s), solved.mT)
        dm = torch.bmm(u.mT, dp).mul_(later).neg_()
        dp.mul_(later)
        dw = torch.bmm(dp.mT, k).baddbmm_(dm.mT, v)
        dv = torch.bmm(ds.mT, q).baddbmm_(dm, w)
        dz = (w * dv).sum(-1, keepdim=True).mul_(beta * (1 - beta / 2))
        da = dw.addcmul_(beta, dv)
        da = da.addcmul_(w, (w * da).sum(-1, keepdim=True), value=-1).mul_(inverse)
        dx = torch.ops.aten.silu_backward(da, x)
        inputs = torch.bmm(ds, v).mul_(ctx.scale), torch.bmm(dp, w), dx, dz
        return *(part.view(b, h, rows, -1)[:, :, :t] for part in inputs), None
