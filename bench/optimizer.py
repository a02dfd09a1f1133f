"""AdamW on two long vectors instead of some thirty tensors: a small model's step is otherwise spent on calls."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .model import Decoder
from .suite import Recipe


class FlatAdamW(torch.optim.AdamW):
    """AdamW (Loshchilov & Hutter 2019, *Decoupled Weight Decay Regularization*) over all parameters of a model.

    The parameters become views of two vectors: ``decayed`` holds the model's matrices, ``others`` what never decays (norms,
    token embeddings, everything that belongs to the encoding). A parameter without a gradient counts as one of gradient 0.

    Arguments:
        model: already on its device.
    """

    def __init__(self, model: Decoder, recipe: Recipe):
        decayed = {n: p for n, p in model.named_parameters() if p.ndim == 2 and n.startswith(("blocks.", "head."))}
        others = {n: p for n, p in model.named_parameters() if n not in decayed}
        self.members = {"decayed": list(decayed.values()), "others": list(others.values())}
        self.vectors = {name: joined(members) for name, members in self.members.items()}
        decay = {"decayed": recipe.weight_decay, "others": 0.0}
        groups = [{"params": [vector], "weight_decay": decay[name]} for name, vector in self.vectors.items()]
        super().__init__(groups, lr=recipe.learning_rate, betas=(recipe.betas[0], recipe.betas[1]), fused=True)

    def zero_grad(self, set_to_none: bool = True) -> None:
        for members in self.members.values():
            for member in members:
                member.grad = None

    @torch.no_grad()
    def clip(self, max_norm: float) -> Float[Tensor, ""]:
        """Take over the parameters' gradients and scale them down to ``max_norm`` together; returns their norm before that."""
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


def joined(members: Sequence[nn.Parameter]) -> nn.Parameter:
    """One vector of which the members become views, their values kept."""
    vector = nn.Parameter(torch.cat([p.detach().flatten() for p in members]))
    for part, member in zip(vector.detach().split([p.numel() for p in members]), members, strict=True):
        member.data = part.view(member.shape)
    return vector
