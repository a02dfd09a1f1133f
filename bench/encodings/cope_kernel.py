"""CoPE's bias with a hand-written backward pass."""

import torch
from jaxtyping import Float
from torch import Tensor


def stack_padded(x: Float[Tensor, "B H T e"], keys: int) -> Float[Tensor, "B*H keys e"]:
    """Stack heads and rows into one contiguous batch of matrices, padded with rows of zeros."""
    b, h, t, e = x.shape
    out = x.new_empty(b, h, keys, e)
    out[:, :, :t] = x
    out[:, :, t:] = 0
    return out.view(b * h, keys, e)


class CountedRows(torch.autograd.Function):
    """row_scale·q_i·E[p_ij] with p_ij = min(Σ_{m=j..i} σ(scale·q_i·k_m), n − 1); E has n rows and is interpolated.

    Value and slope of the interpolation are those at row ⌊p⌋. The last row is repeated, so that the slope there is 0.
    """

    @staticmethod
    def forward(ctx, q, k, table: Float[Tensor, "n d"], scale: float, row_scale: float, causal: bool):
        (b, h, t, d), n = q.shape, len(table)
        q, k = stack_padded(q, t), stack_padded(k, t)
        gates = torch.bmm(q, k.mT).mul_(scale).sigmoid_()
        from_key = gates.new_ones(t, t).tril_()  # [m, j] is 1 where m ≥ j
        if causal:
            gates.mul_(from_key)
        p = torch.mm(gates.view(-1, t), from_key).clamp_(max=n - 1)
        low = p.long()
        share = p.sub_(low)  # of the upper row
        table = torch.cat([table, table[-1:]]).mul_(row_scale)
        rows = torch.mm(q.view(-1, d), table.mT)  # what each row of E adds
        value, slope = rows.gather(-1, low), rows[:, 1:].gather(-1, low)
        slope.sub_(value)
        ctx.save_for_backward(q, k, table, gates, from_key, low, share, slope)
        ctx.scale, ctx.row_scale = scale, row_scale
        return value.addcmul_(share, slope).view(b, h, t, t)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient: Float[Tensor, "B H T T"]):
        q, k, table, gates, from_key, low, share, slope = ctx.saved_tensors
        b, h, t, _ = gradient.shape
        gradient = gradient.reshape(-1, t)
        upper = gradient * share
        drows = gradient.new_zeros(len(gradient), len(table))
        drows[:, 1:].scatter_add_(-1, low, upper)
        drows.scatter_add_(-1, low, gradient - upper)
        dgates = torch.mm(gradient * slope, from_key.mT).view_as(gates)
        ds = torch.ops.aten.sigmoid_backward(dgates, gates).mul_(ctx.scale)  # 0 at later keys, whose gates are 0
        dq = torch.mm(drows, table).view_as(q).baddbmm_(ds, k)
        dtable = torch.mm(drows.mT, q.flatten(0, 1)).mul_(ctx.row_scale)
        return *(x.view(b, h, t, -1) for x in (dq, torch.bmm(ds.mT, q))), dtable[:-1], None, None, None
