"""AdamW on two flat vectors instead of some thirty tensors, because calls dominate the step of a small model."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim.adamw import adamw

from bench.suites.suite import Recipe

from .model import Decoder


class FlatAdamW:
    """AdamW (Loshchilov & Hutter 2019, *Decoupled Weight Decay Regularization*) over all parameters of a model.

    The parameters become views of two vectors: ``decayed`` holds the model's matrices, ``others`` the parameters without weight
    decay (norms, token embeddings, the encoding's own). A missing gradient counts as zero. Calls torch's function: a
    ``torch.optim.Optimizer`` would load ``torch._dynamo`` first, which takes nearly as long as torch itself.

    Arguments:
        model: already on its device.
    """

    def __init__(self, model: Decoder, recipe: Recipe):
        decayed = {n: p for n, p in model.named_parameters() if p.ndim == 2 and n.startswith(("blocks.", "head."))}
        others = {n: p for n, p in model.named_parameters() if n not in decayed}
        self.members = {"decayed": list(decayed.values()), "others": list(others.values())}
        self.vectors = {name: flatten_parameters(members) for name, members in self.members.items()}
        self.weight_decay = {"decayed": recipe.weight_decay, "others": 0.0}
        self.learning_rate, self.betas = recipe.learning_rate, recipe.betas
        self.moments = {name: initial_moments(vector) for name, vector in self.vectors.items()}
        """By vector: steps made, and running means of the gradient and of its square."""

    def zero_grad(self) -> None:
        for members in self.members.values():
            for member in members:
                member.grad = None

    @torch.no_grad()
    def clip(self, max_norm: float) -> Float[Tensor, ""]:
        """Collect the parameters' gradients and clip their joint norm to ``max_norm``; returns the norm before clipping.

        Must be called before every ``step``, which reads the collected gradients.
        """
        for name, members in self.members.items():
            self.vectors[name].grad = torch.cat(
                [(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in members]
            )
        gradients = [vector.grad for vector in self.vectors.values() if vector.grad is not None]
        norm = torch.stack([torch.linalg.vector_norm(g) for g in gradients]).norm()
        scale = (max_norm / (norm + 1e-6)).clamp(max=1)
        for gradient in gradients:
            gradient.mul_(scale)
        return norm

    @torch.no_grad()
    def step(self, skip: Float[Tensor, ""] | None = None) -> None:
        """Update the parameters.

        Arguments:
            skip: 1.0 leaves parameters and moments as they are. A tensor, because reading it would wait for the GPU.
        """
        for name, vector in self.vectors.items():
            assert vector.grad is not None, "clip comes first"
            moments = self.moments[name]
            adamw(
                [vector], [vector.grad], [moments["exp_avg"]], [moments["exp_avg_sq"]], [], [moments["step"]],
                lr=self.learning_rate, beta1=self.betas[0], beta2=self.betas[1], weight_decay=self.weight_decay[name],
                eps=1e-8, amsgrad=False, maximize=False, fused=True, found_inf=skip,
            )  # fmt: skip


def initial_moments(vector: Tensor) -> dict[str, Tensor]:
    """As ``torch.optim`` names them. The fused kernel counts steps in float32 on the device of the vector."""
    step = torch.zeros((), dtype=torch.float32, device=vector.device)
    return {"step": step, "exp_avg": torch.zeros_like(vector), "exp_avg_sq": torch.zeros_like(vector)}


def flatten_parameters(members: Sequence[nn.Parameter]) -> nn.Parameter:
    """One vector with the values of the members, which become views of it."""
    vector = nn.Parameter(torch.cat([p.detach().flatten() for p in members]))
    for part, member in zip(vector.detach().split([p.numel() for p in members]), members, strict=True):
        member.data = part.view(member.shape)
    return vector
