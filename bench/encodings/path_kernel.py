"""What PaTH adds to q·k, with a hand-written backward pass."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.linalg import solve_triangular
from torch.nn import functional as F

from .attention_kernel import stack_padded

MULTIPLE = 8
"""Tokens are padded to a multiple: products of odd sizes take up to twice as long on a CPU."""


class ReflectedScores(torch.autograd.Function):
    """−S U with S = tril(Q Vᵀ), U = (I + M)⁻¹ P, M = tril₋₁(W Vᵀ), P = tril₋₁(W Kᵀ); v_t = β_t w_t.

    All T × T matrices but S are stored transposed, since solving from the right is faster. For a gradient G of the output,
    dS = −G Uᵀ, dP = (I + M)⁻ᵀ (−Sᵀ G) and dM = −dP Uᵀ, each restricted to its triangle.
    """

    @staticmethod
    def forward(ctx, q, k, w, v):
        b, h, t, _ = q.shape
        rows = t + -t % MULTIPLE
        q, k, w, v = (stack_padded(x, rows) for x in (q, k, w, v))
        m = torch.bmm(v, w.mT)  # the solver reads only the part above the diagonal
        u = solve_triangular(m, torch.bmm(k, w.mT).triu_(1), upper=True, left=False, unitriangular=True)
        s = torch.bmm(q, v.mT).tril_().neg_()
        ctx.save_for_backward(q, k, w, v, m, u, s)
        return torch.bmm(s, u.mT).view(b, h, rows, rows)[..., :t, :t]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient: Float[Tensor, "B H T T"]):
        q, k, w, v, m, u, s = ctx.saved_tensors
        b, h, t, _ = gradient.shape
        rows = q.shape[1]
        gradient = F.pad(gradient, (0, rows - t, 0, rows - t)).reshape(b * h, rows, rows)
        ds = torch.bmm(gradient, u).tril_().neg_()
        dp = solve_triangular(m.mT, torch.bmm(gradient.mT, s), upper=False, left=False, unitriangular=True)
        dm = torch.bmm(u.mT, dp).triu_(1).neg_()
        dp.triu_(1)
        dw = torch.bmm(dp.mT, k).baddbmm_(dm.mT, v)
        dv = torch.bmm(ds.mT, q).baddbmm_(dm, w)
        return tuple(x.view(b, h, rows, -1)[:, :, :t] for x in (torch.bmm(ds, v), torch.bmm(dp, w), dw, dv))
