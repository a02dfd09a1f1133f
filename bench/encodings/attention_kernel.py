"""softmax(q·k/√d + bias)·v by the fastest kernel of torch that computes it."""

import math
from functools import cache

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

FUSED = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
"""What ``scaled_dot_product_attention`` calls on a CPU. It takes ``is_causal`` together with a bias, so that no masked copy of
the bias is made, and it skips later keys."""
EFFICIENT = torch.ops.aten._scaled_dot_product_efficient_attention
"""What ``scaled_dot_product_attention`` calls on a GPU if there is a bias. That function refuses a bias together with
``is_causal``; this one takes both, and skips later keys."""
ALIGNED = 8
"""Elements of which widths and strides of its inputs must be multiples: 16 bytes in bf16."""
ONE_BLOCK = 64
"""Tokens up to which flash attention, which works on blocks of 128, is slower: on a GPU than ``EFFICIENT``, also without a
bias, on a CPU than plain products."""


def attention(
    q: Float[Tensor, "B H T e"],
    k: Float[Tensor, "B H T e"],
    v: Float[Tensor, "B H T d"],
    bias: Float[Tensor, "*B H T T"] | None,
    scale: float,
    causal: bool,
) -> Float[Tensor, "B H T d"]:
    """Softmax attention by the fastest available kernel; by none for short sequences on a CPU.

    Arguments:
        causal: whether queries see no later key.
    """
    count, width, on_cpu = q.shape[-2], v.shape[-1], q.device.type == "cpu"
    if bias is not None:  # autocast may have lowered q; torch's fused attention takes no bias of three axes
        bias = bias.to(q.dtype)[(None,) * (4 - bias.ndim)].expand(-1, -1, count, count)
    if on_cpu and count <= ONE_BLOCK and not torch.is_autocast_enabled("cpu"):
        mask = torch.where(later_keys(count, q.device), -math.inf, 0.0 if bias is None else bias) if causal else bias
        s = (q * scale) @ k.mT
        return (s if mask is None else s.add_(mask)).softmax(-1) @ v
    more = max(0, q.shape[-1] - width) if on_cpu else 0
    v = F.pad(v, (0, more)) if more else v  # the CPU's fused kernel takes only equal widths
    if not on_cpu and (bias is not None or count <= ONE_BLOCK) and efficient_takes(q, k, v):
        out = efficient_attention(q, k, v, bias, scale, causal)
    elif bias is None:
        out = F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)
    elif on_cpu and causal and fits(q, k, v) and not (bias.requires_grad or torch.is_autocast_enabled("cpu")):
        bias = bias if bias.stride(-1) == 1 else bias.contiguous()
        out = FUSED(q, k, v, is_causal=True, attn_mask=bias, scale=scale)[0]
    else:
        mask = torch.where(later_keys(count, q.device), -math.inf, bias) if causal else bias
        # A GPU's fused kernels take no other layout, such as that of a table's rows with the heads moved to the front.
        mask = mask if on_cpu or mask.stride(-1) == 1 else mask.contiguous()
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
    return out[..., :width] if more else out


def fits(*qkv: Float[Tensor, "B H T e"]) -> bool:
    """Whether a fused kernel takes these tensors, which it does not check itself."""
    return len({(x.dtype, x.shape[-1]) for x in qkv}) == 1 and all(x.stride(-1) == 1 for x in qkv)


def efficient_takes(*qkv: Float[Tensor, "B H T e"]) -> bool:
    """Whether ``EFFICIENT`` does, which has kernels for bf16 from NVIDIA's Ampere (2020) on."""
    numbers = [n for x in qkv for n in (x.shape[-1], *x.stride()[:-1], x.storage_offset())]
    kernel_exists = qkv[0].dtype != torch.float64 and ampere_or_later(qkv[0].device)
    return fits(*qkv) and kernel_exists and not any(n % ALIGNED for n in numbers)


@cache
def ampere_or_later(device: torch.device) -> bool:
    """Whether a GPU is of that generation; true for torch's device without data, ``meta``."""
    return device.type != "cuda" or torch.cuda.get_device_capability(device) >= (8, 0)


def efficient_attention(
    q: Float[Tensor, "B H T d"],
    k: Float[Tensor, "B H T d"],
    v: Float[Tensor, "B H T d"],
    bias: Float[Tensor, "*B H T T"] | None,
    scale: float,
    causal: bool,
) -> Float[Tensor, "B H T d"]:
    """Attention by ``EFFICIENT``."""
    if bias is not None:
        if causal and bias.requires_grad:  # the kernel leaves its gradient at later keys unwritten; here it becomes 0
            bias = torch.where(later_keys(bias.shape[-1], bias.device), 0, bias)
        bias = aligned_rows(bias).expand(*q.shape[:2], -1, -1)
    return EFFICIENT(q, k, v, bias, compute_log_sumexp=True, is_causal=causal, scale=scale)[0]


def aligned_rows(bias: Float[Tensor, "*B H T T"]) -> Float[Tensor, "*B H T T"]:
    """The same bias in memory whose rows begin at multiples of ``ALIGNED``."""
    count = bias.shape[-1]
    return F.pad(bias, (0, -count % ALIGNED))[..., :count] if count % ALIGNED else bias.contiguous()


@cache
def later_keys(count: int, device: torch.device) -> Bool[Tensor, "T T"]:
    """True where query i must not see key j > i. Kept for good, because a CUDA graph may read it."""
    with torch.inference_mode(False):  # a later call may need gradients
        return torch.ones(count, count, dtype=torch.bool, device=device).triu(1)
