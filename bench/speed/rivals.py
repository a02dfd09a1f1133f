"""The same model in the two libraries that people would use instead, and the training step they would take with it.

Every rival has our width, depth, heads and MLP width, no dropout and its fastest attention on one core. As its users do, it
pads a step's examples on the right to the longest, for which causal attention needs no mask, and computes logits everywhere.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from bench.suite import ModelSpec, Recipe
from bench.train import precision
from tasks import BOS, EOS, PAD, Examples, InputError

LIBRARIES = ("transformers", "x_transformers")
IGNORED = -100
"""The label of tokens that do not count."""


def libraries() -> tuple[ModuleType, ...]:
    """The two libraries.

    Raises:
        InputError: one of them is not installed.
    """
    found = []
    for name in LIBRARIES:
        try:
            found.append(importlib.import_module(name))
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            raise InputError(f"{name.replace('_', '-')} is not installed, expected the development tools: make speed") from None
    found[0].utils.logging.set_verbosity_error()
    return tuple(found)


@dataclass(frozen=True)
class Rival:
    """One model of a library."""

    who: str
    encoding: str
    """The encoding of ours that it has."""
    model: nn.Module
    logits: Callable[[Int[Tensor, "B T"]], Float[Tensor, "B T V"]]
    generates: bool
    """Has ``generate`` with a KV cache."""

    @property
    def parameters(self) -> int:
        return sum(p.numel() for p in self.model.parameters())


def rivals(spec: ModelSpec, symbols: int, tokens: int) -> list[Rival]:
    """Every rival, at a fixed start.

    Arguments:
        symbols: size of the vocabulary.
        tokens: of the longest sequence, for tables of positions.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return of_x_transformers(spec, symbols, tokens) + of_transformers(spec, symbols, tokens)


def of_x_transformers(spec: ModelSpec, symbols: int, tokens: int) -> list[Rival]:
    """x-transformers, with torch's fused attention (``attn_flash``) and without: which is faster hangs on the shapes."""
    _, library = libraries()
    options: dict[str, dict[str, object]] = {
        "nope": {},
        "learned": {},
        "rope": {"rotary_pos_emb": True, "rotary_emb_dim": spec.width // spec.heads},
        "alibi": {"alibi_pos_bias": True},
        "t5": {"rel_pos_bias": True},
    }
    found = []
    for encoding, layers in options.items():
        for flash in (False, True):
            if flash and encoding == "t5":
                continue  # which the library refuses
            model = library.TransformerWrapper(
                num_tokens=symbols,
                max_seq_len=tokens,
                use_abs_pos_emb=encoding == "learned",
                attn_layers=library.Decoder(
                    dim=spec.width,
                    depth=spec.layers,
                    heads=spec.heads,
                    attn_dim_head=spec.width // spec.heads,
                    attn_flash=flash,
                    ff_mult=spec.mlp_width / spec.width,
                    ff_no_bias=True,
                    verbose=False,
                    **layers,
                ),
            )
            found.append(Rival(f"x-transformers{', flash' if flash else ''}", encoding, model, model, generates=False))
    return found


def of_transformers(spec: ModelSpec, symbols: int, tokens: int) -> list[Rival]:
    """Hugging Face transformers: GPT-2 (learned), Llama and GPT-NeoX (RoPE), MPT (ALiBi).

    None of its decoders has T5's bias, or no encoding at all.
    """
    library, _ = libraries()
    d, layers, heads, mlp = spec.width, spec.layers, spec.heads, spec.mlp_width
    common = {
        "vocab_size": symbols, "bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD, "tie_word_embeddings": False,
    }  # fmt: skip
    rotary = {
        "hidden_size": d, "num_hidden_layers": layers, "num_attention_heads": heads, "max_position_embeddings": tokens,
    }  # fmt: skip
    turned = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}
    configs = {
        "GPT-2": library.GPT2Config(
            n_positions=tokens, n_embd=d, n_layer=layers, n_head=heads, n_inner=mlp, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
            activation_function="gelu",  # as ours; the library's default, a tanh in Python, takes almost twice the step
            **common,
        ),
        "Llama": library.LlamaConfig(
            intermediate_size=round(mlp * 2 / 3),  # SwiGLU has three matrices: as many parameters as our two
            **rotary, **common,
        ),
        "GPT-NeoX": library.GPTNeoXConfig(
            intermediate_size=mlp, use_parallel_residual=False, hidden_dropout=0.0, attention_dropout=0.0,
            rope_parameters=turned, **rotary, **common,
        ),
        "MPT": library.MptConfig(
            max_seq_len=tokens, d_model=d, n_layers=layers, n_heads=heads, expansion_ratio=mlp // d, **common,
        ),
    }  # fmt: skip
    encodings = {"GPT-2": "learned", "Llama": "rope", "GPT-NeoX": "rope", "MPT": "alibi"}
    found = []
    for who, config in configs.items():
        model = library.AutoModelForCausalLM.from_config(config)
        found.append(Rival(who, encodings[who], model, hugging_face(model), generates=True))
    return found


def hugging_face(model: nn.Module) -> Callable[[Tensor], Tensor]:
    return lambda ids: model(input_ids=ids, use_cache=False).logits


def padded(examples: Examples) -> tuple[Int[Tensor, "B T-1"], Int[Tensor, "B T-1"]]:
    """Tokens that go in, and for each the next token where that counts, else ``IGNORED``."""
    tokens, counts = torch.from_numpy(examples.tokens), torch.from_numpy(examples.targets)
    return tokens[:, :-1], tokens[:, 1:].masked_fill(~counts[:, 1:], IGNORED)


class Training:
    """A rival and torch's fused AdamW, under our recipe and in its precision."""

    def __init__(self, rival: Rival, recipe: Recipe, device: torch.device | None = None):
        self.rival, self.clip_norm, self.device = rival, recipe.clip_norm, device or torch.device("cpu")
        rival.model.to(self.device)
        self.optimizer = torch.optim.AdamW(
            rival.model.parameters(), lr=recipe.learning_rate, betas=(recipe.betas[0], recipe.betas[1]),
            weight_decay=recipe.weight_decay, fused=True,
        )  # fmt: skip
        rival.model.train()

    def step(self, examples: Examples) -> float:
        """One step: mean cross-entropy over all answer tokens, clipping, AdamW; returns the loss."""
        self.optimizer.zero_grad(set_to_none=True)
        ids, labels = (part.to(self.device, non_blocking=True) for part in padded(examples))
        with precision(self.device):
            logits = self.rival.logits(ids)
        loss = F.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), ignore_index=IGNORED)
        loss.backward()
        nn.utils.clip_grad_norm_(self.rival.model.parameters(), self.clip_norm)
        self.optimizer.step()
        return loss.item()
