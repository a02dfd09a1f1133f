"""The optimizer: torch's AdamW, with the recipe's groups of parameters."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bench.suites.parts import Recipe

from .model import Decoder


class AdamW(torch.optim.AdamW):
    """AdamW (Loshchilov & Hutter 2019, *Decoupled Weight Decay Regularization*) over all parameters of a model.

    Weight decay is for the model's matrices; not for norms, token embeddings and the encoding's own parameters. A missing
    gradient counts as zero.

    Arguments:
        model: already on its device.
    """

    def __init__(self, model: Decoder, recipe: Recipe):
        self.named: Mapping[str, nn.Parameter] = dict(model.named_parameters())
        decayed = {n: p for n, p in self.named.items() if p.ndim == 2 and n.startswith(("blocks.", "head."))}
        others = [p for n, p in self.named.items() if n not in decayed]
        groups = [
            {"params": [*decayed.values()], "weight_decay": recipe.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        super().__init__(groups, lr=recipe.learning_rate, betas=(recipe.betas[0], recipe.betas[1]), fused=True)
        for parameter in self.named.values():  # as torch would at the first step, so that a checkpoint has all of it before
            zeros = {key: torch.zeros_like(parameter) for key in ("exp_avg", "exp_avg_sq")}
            self.state[parameter] = {"step": torch.zeros((), device=parameter.device)} | zeros

    def moments(self) -> dict[str, Tensor]:
        """``step/``, ``exp_avg/`` and ``exp_avg_sq/<parameter>``: steps made, running means of the gradient and its square."""
        return {f"{key}/{name}": value for name, p in self.named.items() for key, value in self.state[p].items()}

    def update(
        self, loss: Float[Tensor, ""], learning_rate: float, clip_norm: float, encoding_only: bool = False
    ) -> Float[Tensor, " 2"]:
        """Clip the gradients and step, without waiting for the GPU; no step if the loss or a gradient is infinite or NaN.

        Arguments:
            clip_norm: largest joint norm of all gradients.
            encoding_only: leave all parameters but the encoding's as they are.

        Returns:
            The loss, and 1.0 if there was no step, else 0.0.
        """
        for group in self.param_groups:
            group["lr"] = learning_rate
        for name, parameter in self.named.items():
            if encoding_only and not name.startswith("encoding."):
                parameter.grad = None  # torch skips it
            elif parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        norm = nn.utils.clip_grad_norm_(self.named.values(), clip_norm)
        self.found_inf = 1 - (loss + norm).isfinite().float()  # read by the fused kernel: 1.0 leaves everything as it is
        self.step()
        return torch.stack([loss, self.found_inf])
