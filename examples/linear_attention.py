"""Two models that are not lprime's, trained and tested as runs of a suite are: linear attention, written here, and a Llama.

python examples/linear_attention.py [SUITE TASK]
"""

import sys

import torch
from torch import nn
from torch.nn import functional as F
from transformers import LlamaConfig, LlamaForCausalLM

import lprime

WIDTH, HEADS, LAYERS = 64, 4, 2


class LinearAttention(nn.Module):
    """Causal attention with φ(x) = elu(x) + 1 in place of softmax (Katharopoulos et al. 2020), as a running sum over keys."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):  # [B, T, D]
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, -1)).unbind(2)  # [B, T, H, d]
        q, k = F.elu(q) + 1, F.elu(k) + 1
        sums = torch.einsum("bthi,bthj->bthij", k, v).cumsum(1)
        mixed = torch.einsum("bthi,bthij->bthj", q, sums) / torch.einsum("bthi,bthi->bth", q, k.cumsum(1))[..., None]
        x = x + self.out(mixed.flatten(2))
        return x + self.mlp(x)


def linear(symbols):
    return nn.Sequential(nn.Embedding(symbols, WIDTH), *(LinearAttention() for _ in range(LAYERS)), nn.Linear(WIDTH, symbols))


def llama(symbols):
    sizes = dict(hidden_size=WIDTH, intermediate_size=4 * WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS)
    return LlamaForCausalLM(LlamaConfig(vocab_size=symbols, **sizes))


if __name__ == "__main__":
    suite, task = sys.argv[1:] or ("quick", "copying")
    symbols = len(lprime.load_task(task, suite, train_examples=1).vocabulary)
    for make in (linear, llama):
        torch.manual_seed(0)
        model = lprime.train(model=make(symbols), suite=suite, task=task)
        frame = lprime.evaluate_model(model, suite, task, name=make.__name__)
        print(frame[["encoding", "parameters", "step_ms", "length", "exact"]].to_string(index=False))
