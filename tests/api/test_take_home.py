"""The patches of ``examples/take_home.py``: the logits of a model of the harness, with its weights in other models."""

import runpy

import pytest
import torch
from support import ROOT
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from bench.encodings import Setup
from bench.plugins.registry import get_encoding
from bench.suites.suite import load_suite
from bench.training.model import Decoder, build_decoder

HEADS, WIDTH, SIZES = 4, 32, {"train_length": 9, "longest": 24}
IDS = torch.randint(12, (3, 24), generator=torch.Generator().manual_seed(1))
EXAMPLE = runpy.run_path(str(ROOT / "examples/take_home.py"))


@pytest.fixture(params=["alibi", "rope", "fire", "t5"])
def ours(request) -> tuple[str, Decoder]:
    """A model of the harness in evaluation mode; of one layer, since weights may differ between layers."""
    spec = load_suite("quick").model.model_copy(update={"layers": 1, "heads": HEADS, "width": WIDTH, "mlp_width": 4 * WIDTH})
    setup = Setup(1, WIDTH, HEADS, WIDTH // HEADS, 9, 24, 9, 24, symbols=("a",) * 12)
    model = build_decoder(spec, get_encoding(request.param), setup, 0).eval().requires_grad_(False)
    for parameter in model.encoding.parameters():
        parameter.add_(0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    return request.param, model


def copy(weights: dict[nn.Linear, torch.Tensor], attention: nn.Module, model: Decoder) -> None:
    for target, weight in weights.items():
        target.weight.data.copy_(weight)
        nn.init.zeros_(target.bias) if target.bias is not None else None
    attention.encoding.load_state_dict(model.encoding.state_dict())


def test_a_block_of_nanogpt(ours):
    name, model = ours
    block, theirs = model.blocks[0], EXAMPLE["Block"](WIDTH, HEADS, name, **SIZES).eval()
    theirs.ln_1, theirs.ln_2, (up, _, down) = block.attention_norm, block.mlp_norm, theirs.mlp
    weights = {theirs.c_attn: block.qkv, theirs.c_proj: block.out, up: block.up, down: block.down}
    copy({target: source.weight for target, source in weights.items()}, theirs.attention, model)
    found = model.head(model.norm(theirs(model.embedding(IDS))))
    torch.testing.assert_close(found, model.logits(model(IDS, 24)), rtol=1e-4, atol=1e-4)


def test_a_llama_in_one_pass_and_with_its_cache(ours):
    name, model = ours
    sizes = {"hidden_size": WIDTH, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": HEADS}
    theirs = EXAMPLE["patch_llama"](LlamaForCausalLM(LlamaConfig(vocab_size=12, **sizes)), name, **SIZES).eval()
    block, layer, own = model.blocks[0], theirs.model.layers[0], theirs.model.layers[0].self_attn
    # All but the attention is the harness's: Llama has other norms and another MLP.
    layer.input_layernorm, layer.post_attention_layernorm, theirs.model.norm = block.attention_norm, block.mlp_norm, model.norm
    layer.mlp = nn.Sequential(block.up, nn.GELU(), block.down)
    theirs.lm_head, theirs.model.embed_tokens = model.head, model.embedding
    maps = (own.q_proj, own.k_proj, own.v_proj, own.o_proj)
    copy(dict(zip(maps, (*block.qkv.weight.chunk(3), block.out.weight), strict=True)), own.attention, model)
    expected, cache = model.logits(model(IDS, 24)), None
    torch.testing.assert_close(theirs(IDS).logits, expected, rtol=1e-4, atol=1e-4)
    for start, stop in ((0, 8), *((n, n + 1) for n in range(8, 24))):
        out = theirs(IDS[:, start:stop], past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        torch.testing.assert_close(out.logits, expected[:, start:stop], rtol=1e-3, atol=2e-4)
