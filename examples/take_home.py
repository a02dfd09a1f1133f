"""An encoding of lprime in other models: a block in the style of nanoGPT, and a Llama of transformers."""

import torch
from torch import nn
from transformers import AttentionInterface, LlamaConfig, LlamaForCausalLM

import lprime


class Block(nn.Module):
    """nanoGPT's block. In nanoGPT, change two lines of `CausalSelfAttention`, and drop the table `wpe` of the model.

    Arguments:
        sizes: of ``lprime.attention``: train_length, and longest if the model meets longer texts.
    """

    def __init__(self, width, heads, encoding, **sizes):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.attention = lprime.attention(encoding, heads=heads, head_width=width // heads, **sizes)  # new, in __init__

    def forward(self, x):
        q, k, v = self.c_attn(self.ln_1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = self.attention(q, k, v)  # new, in place of F.scaled_dot_product_attention
        x = x + self.c_proj(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.ln_2(x))


class NoRotation(nn.Module):
    """In place of Llama's rotary embedding: its cosines are 1 and its sines 0."""

    def forward(self, x, position_ids):
        return torch.ones_like(x[:1, :, :1]), torch.zeros_like(x[:1, :, :1])


def patch_llama(model, encoding, **sizes):
    """Give each layer of a Llama the attention of an encoding; it is trained, and generates with a cache, as before.

    Sequences start at position 0 and are padded on the right, if at all.
    """

    def attend(layer, q, k, v, mask, **_):
        groups = q.shape[1] // k.shape[1]  # query heads for each head of keys
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        return layer.attention(q, k, v).transpose(1, 2), None

    AttentionInterface.register("lprime", attend)
    model.set_attn_implementation("lprime")
    model.model.rotary_emb, heads = NoRotation(), model.config.num_attention_heads
    for layer in model.model.layers:
        layer.self_attn.attention = lprime.attention(encoding, heads=heads, head_width=layer.self_attn.head_dim, **sizes)
    return model


if __name__ == "__main__":
    sizes = dict(hidden_size=64, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4)
    model = patch_llama(LlamaForCausalLM(LlamaConfig(vocab_size=12, **sizes)), "kerple_log", train_length=15, longest=63)
    lprime.train(model=model, suite="quick", task="copying")
    print(lprime.evaluate_model(model, "quick", "copying")[["length", "exact"]].to_string(index=False))
    print(model.generate(torch.tensor([[1, 4, 5, 6, 2]]), max_new_tokens=4, do_sample=False))
