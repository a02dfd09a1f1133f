"""Stick-breaking attention: each key, nearest first, takes a share of the weight left by the nearer keys."""

import torch
from torch import Tensor
from torch.nn import functional as F

from .attention import at_least_float32, scores
from .base import At, Encoding
from .bibliography import published


class StickBreaking(Encoding):
    """A_ij = σ(z_ij) Π_{j<m<i} (1 − σ(z_im)) over earlier keys, z = q·k/√d, in place of the softmax.

    A query does not attend to its own key; the remaining weight goes to its own value, as in the authors' tests. The order in
    which the stick is broken is the only order signal.
    """

    info = published(
        "stick_breaking",
        family="contextual",
        formula="o_i = Σ_{j<i} A_ij v_j + (1 − Σ_{j<i} A_ij) v_i, A_ij = σ(z_ij) Π_{j<m<i} (1 − σ(z_im)), z = q·k/√d",
        past="farther keys get the weight left by nearer ones",
        shift_invariant=True,
    )

    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, at: At) -> Tensor:
        z = at_least_float32(scores(q, k, self.setup))
        z = z if bias is None else z + bias
        no_key = torch.ones(z.shape[-2:], dtype=torch.bool, device=z.device).triu()
        log_rest = F.logsigmoid(-z).masked_fill(no_key, 0)  # log(1 − σ(z))
        log_left = log_rest.flip(-1).cumsum(-1).flip(-1)  # Σ over m = j … i − 1
        # σ(z) = e^z (1 − σ(z)), so log A_ij = z_ij + Σ_{j≤m<i} log(1 − σ(z_im)).
        weights = (z + log_left).masked_fill(no_key, float("-inf")).exp()
        return weights @ v + log_left[..., :1].exp() * v
