"""The same model in x-transformers and Hugging Face transformers, and a plain training step of it.

Every model has our width, depth, heads and MLP width and no dropout. As users of these libraries do, a step pads its examples
on the right to the longest, where causal attention needs no mask, and computes logits at all positions.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from bench.suites.suite import ModelSpec, Recipe
from bench.training.batches import IGNORED
from bench.training.train import autocast
from tasks import BOS, EOS, PAD, Examples, InputError

LIBRARIES = ("x_transformers", "transformers")
PACKAGES = tuple(name.replace("_", "-") for name in LIBRARIES)


def import_library(name: str) -> ModuleType:
    """Hugging Face transformers, or x-transformers.

    Raises:
        InputError: it is not installed.
    """
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise InputError(f"{name.replace('_', '-')} is not installed, expected the development tools: make speed") from None
    if name == "transformers":
        module.utils.logging.set_verbosity_error()
    return module


@dataclass(frozen=True)
class LibraryModel:
    """One model of a library."""

    who: str
    encoding: str
    """Our name of its positional encoding."""
    module: nn.Module
    logits: Callable[[Int[Tensor, "B T"]], Float[Tensor, "B T V"]]
    generates: bool
    """Whether it has ``generate()`` with a KV cache."""

    @property
    def parameters(self) -> int:
        return sum(p.numel() for p in self.module.parameters())


def library_models(
    spec: ModelSpec, symbols: int, tokens: int, failed: dict[str, Exception] | None = None
) -> list[LibraryModel]:
    """Every model of both libraries, initialised from a fixed seed.

    Arguments:
        symbols: size of the vocabulary.
        tokens: length of the longest sequence, for tables of positions.
        failed: receives the error of a library that cannot be used, which is left out; None: it is raised.
    """
    models = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for name, build in zip(LIBRARIES, (x_transformers_models, hugging_face_models), strict=True):
            try:
                models += build(import_library(name), spec, symbols, tokens)
            except Exception as error:  # of the library
                if failed is None:
                    raise
                failed[name.replace("_", "-")] = error
    return models


def x_transformers_models(library: ModuleType, spec: ModelSpec, symbols: int, tokens: int) -> list[LibraryModel]:
    """x-transformers with torch's fused attention (``attn_flash``) and without: which is faster depends on the shapes."""
    options: dict[str, dict[str, object]] = {
        "nope": {},
        "learned": {},
        "rope": {"rotary_pos_emb": True, "rotary_emb_dim": spec.width // spec.heads},
        "alibi": {"alibi_pos_bias": True},
        "t5": {"rel_pos_bias": True},
    }
    models = []
    for encoding, layers in options.items():
        for flash in (False, True):
            if flash and encoding == "t5":
                continue  # the library refuses it
            module = library.TransformerWrapper(
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
            who = f"x-transformers{', flash' if flash else ''}"
            models.append(LibraryModel(who, encoding, module, module, generates=False))
    return models


def hugging_face_models(library: ModuleType, spec: ModelSpec, symbols: int, tokens: int) -> list[LibraryModel]:
    """Hugging Face transformers: GPT-2 (learned), Llama and GPT-NeoX (RoPE), MPT (ALiBi).

    It has no decoder with T5's bias, and none without an encoding.
    """
    d, layers, heads, mlp = spec.width, spec.layers, spec.heads, spec.mlp_width
    common = {
        "vocab_size": symbols, "bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD, "tie_word_embeddings": False,
    }  # fmt: skip
    rotary = {
        "hidden_size": d, "num_hidden_layers": layers, "num_attention_heads": heads, "max_position_embeddings": tokens,
    }  # fmt: skip
    rope = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}
    configs = {
        "GPT-2": library.GPT2Config(
            n_positions=tokens, n_embd=d, n_layer=layers, n_head=heads, n_inner=mlp, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
            activation_function="gelu",  # as ours; the library's default, tanh in Python, almost doubles the step time
            **common,
        ),
        "Llama": library.LlamaConfig(
            intermediate_size=round(mlp * 2 / 3),  # SwiGLU has three matrices: as many parameters as our two
            **rotary, **common,
        ),
        "GPT-NeoX": library.GPTNeoXConfig(
            intermediate_size=mlp, use_parallel_residual=False, hidden_dropout=0.0, attention_dropout=0.0,
            rope_parameters=rope, **rotary, **common,
        ),
        "MPT": library.MptConfig(
            max_seq_len=tokens, d_model=d, n_layers=layers, n_heads=heads, expansion_ratio=mlp // d, **common,
        ),
    }  # fmt: skip
    encodings = {"GPT-2": "learned", "Llama": "rope", "GPT-NeoX": "rope", "MPT": "alibi"}
    modules = {who: library.AutoModelForCausalLM.from_config(config) for who, config in configs.items()}
    return [LibraryModel(who, encodings[who], m, hugging_face_logits(m), generates=True) for who, m in modules.items()]


def hugging_face_logits(module: nn.Module) -> Callable[[Tensor], Tensor]:
    return lambda ids: module(input_ids=ids, use_cache=False).logits


def right_padded(examples: Examples, width: int | None = None) -> tuple[Int[Tensor, "B T-1"], Int[Tensor, "B T-1"]]:
    """Input tokens, and for each the next token if it belongs to the answer, else ``IGNORED``.

    Arguments:
        width: tokens to pad to; by default those of the longest example.
    """
    more = (0, max(0, (width or 0) - examples.tokens.shape[1]))
    tokens, counts = F.pad(torch.from_numpy(examples.tokens), more, value=PAD), F.pad(torch.from_numpy(examples.targets), more)
    return tokens[:, :-1], tokens[:, 1:].masked_fill(~counts[:, 1:], IGNORED)


class LibraryTraining:
    """A library's model with torch's fused AdamW, our recipe and our autocast.

    Arguments:
        width: compile the model for sequences of so many tokens, to which all are padded; None: do not compile it.
    """

    def __init__(self, model: LibraryModel, recipe: Recipe, device: torch.device, width: int | None = None):
        self.parameters, self.clip_norm, self.device, self.width = model.parameters, recipe.clip_norm, device, width
        self.model, self.logits = model, model.logits
        if width is not None:
            self.logits = torch.compile(model.logits, dynamic=False)
        model.module.to(device)
        self.optimizer = torch.optim.AdamW(
            model.module.parameters(), lr=recipe.learning_rate, betas=(recipe.betas[0], recipe.betas[1]),
            weight_decay=recipe.weight_decay, fused=True,
        )  # fmt: skip
        model.module.train()

    def arrange(self, examples: Examples) -> tuple[Tensor, Tensor]:
        """The input of ``step``, as by the worker of a data loader, while a GPU computes the step before."""
        ids, labels = right_padded(examples, self.width)
        return (ids.pin_memory(), labels.pin_memory()) if self.device.type == "cuda" else (ids, labels)

    def step(self, given: Examples | tuple[Tensor, Tensor]) -> float:
        """One step: mean cross-entropy over all answer tokens, clipping, AdamW; returns the loss.

        Arguments:
            given: examples, or what ``arrange`` made of them.
        """
        torch.backends.cuda.enable_cudnn_sdp(True)  # as for users of the library; bench.training.model turns it off for ours
        try:
            return self.train(self.arrange(given) if isinstance(given, Examples) else given)
        finally:
            torch.backends.cuda.enable_cudnn_sdp(False)

    def train(self, arranged: tuple[Tensor, Tensor]) -> float:
        self.optimizer.zero_grad(set_to_none=True)
        ids, labels = (part.to(self.device, non_blocking=True) for part in arranged)
        with autocast(self.device):
            logits = self.logits(ids)
        loss = F.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), ignore_index=IGNORED)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.module.parameters(), self.clip_norm)
        self.optimizer.step()
        return loss.item()
