"""What the benchmarks share: our training loop, the same models in other libraries, and turns between them.

Every model has the width, depth, heads and MLP width of a suite, and no dropout. All train on the same examples, with the same
loss over answer tokens, clipping and AdamW. As users of the libraries do, the libraries' steps pad examples on the right to the
longest.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from statistics import median
from typing import TypeVar, get_args
from unittest.mock import patch

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

import tasks
from bench.encodings import attention_kernel
from bench.runs.devices import available_cores, current_commit, device_name, package_versions
from bench.runs.run import Run, now
from bench.runs.run_training import build_model
from bench.suites.parts import Recipe
from bench.suites.suite import Suite, load_suite
from bench.training.batches import IGNORED
from bench.training.cuda_graphs import GraphedStep
from bench.training.evaluate import evaluate
from bench.training.optimizer import AdamW
from bench.training.train import TrainingState, answer_loss, train
from tasks import BOS, EOS, PAD, Examples

K = TypeVar("K")
CPU = torch.device("cpu")
REFERENCES = ("nope", "learned", "rope", "alibi", "t5")
OURS = "lprime"
PRECISIONS = get_args(Recipe.model_fields["precision"].annotation)
"""Of a recipe: the first is bf16 on a GPU, the last fp32 on every device."""
SIZES = {"64x3": (64, 3, 4), "128x4": (128, 4, 4), "256x6": (256, 6, 8)}
"""Size → width, layers and heads."""


def suite_of(size: str, task: str, length: int | None = None, low: bool = False, batch: int | None = None) -> Suite:
    """Suite ``small`` without its blocks, with one task at another size; in bf16 on a GPU if ``low``, else in fp32.

    Arguments:
        length, batch: of all examples, and examples of a step, in place of those of ``small``.
    """
    suite, (width, layers, heads) = load_suite("small"), SIZES[size]
    changes: dict[str, object] = {"precision": PRECISIONS[0 if low else -1]}
    changes |= {"lengths": "L"} if length else {}
    spec = suite.spec(task).model_copy(update={"train_length": length, "test_at": [1.0, 2.0]} if length else {})
    own = spec.recipe | changes | ({"batch": batch} if batch else {})
    model = suite.model.model_copy(update={"width": width, "layers": layers, "heads": heads, "mlp_width": 4 * width})
    tasks = [spec.model_copy(update={"recipe": own})]
    return suite.model_copy(update={"model": model, "tasks": tasks, "blocks": [], "learning_rates": []})


class Ours:
    """One encoding's training by the real loop, a few steps at a time.

    Arguments:
        graphs: on a GPU, as CUDA graphs.
        efficient: on a GPU, with the kernel ``attention_kernel.EFFICIENT`` where it fits.
    """

    def __init__(self, suite: Suite, encoding: str, device: torch.device = CPU, graphs: bool = True, efficient: bool = True):
        self.efficient = efficient
        self.suite, self.name = suite, suite.tasks[0].task
        self.task, self.length = suite.make_task(self.name), suite.spec(self.name).train_length
        self.recipe = suite.recipe_for(self.name)
        self.model = build_model(Run(suite, self.name, encoding, 0)).to(device)
        self.optimizer, self.state = AdamW(self.model, self.recipe), TrainingState()
        self.graphs = GraphedStep(self.model, partial(answer_loss, self.model)) if device.type == "cuda" else None
        if self.graphs and not graphs:
            self.graphs.usable = False

    def steps(self, count: int, **options: object) -> None:
        """Make the next steps; drawing their examples included. ``options`` are of ``train``."""
        recipe = self.recipe.model_copy(update={"steps": self.state.step + count})
        arguments = self.model, self.optimizer, self.task, self.length, recipe, 0, self.state
        refused = patch.object(attention_kernel, "efficient_takes", lambda *qkv: False)
        with nullcontext() if self.efficient else refused:
            train(*arguments, graphs=self.graphs, **options)  # type: ignore[arg-type]

    def evaluate(self, examples: Examples) -> float:
        """Exact match of examples of one length, by one teacher-forced pass."""
        (score,) = evaluate(self.model, self.task, {int(examples.lengths[0]): examples}, self.suite.test_seed)
        return score.exact


Rival = tuple[str, str, nn.Module]
"""Name of a model, our name of its positional encoding, and the module."""


class Theirs:
    """Training of a library's model with torch's fused AdamW; if ``compiled``, for examples padded to one width."""

    def __init__(self, module: nn.Module, suite: Suite, device: torch.device = CPU, compiled: bool = False):
        (spec,) = suite.tasks
        self.task, self.length, self.recipe = suite.make_task(spec.task), spec.train_length, suite.recipe_for(spec.task)
        self.low = device.type == "cuda" and self.recipe.precision == PRECISIONS[0]
        self.module, self.device, self.step = module.to(device).train(), device, 0
        self.width = self.task.tokens(self.length) if compiled else None
        self.model = torch.compile(self.module, dynamic=False) if compiled else self.module
        options = {"lr": self.recipe.learning_rate, "betas": tuple(self.recipe.betas), "weight_decay": self.recipe.weight_decay}
        self.optimizer = torch.optim.AdamW(self.module.parameters(), fused=True, **options)

    def draw(self) -> tuple[Tensor, Tensor]:
        least = self.length if self.recipe.lengths == "L" else 1
        examples = tasks.train_batch(self.task, self.length, self.recipe.batch, 0, self.step, least)
        self.step += 1
        ids, labels = right_padded(examples, self.width)
        return (ids.pin_memory(), labels.pin_memory()) if self.device.type == "cuda" else (ids, labels)

    def steps(self, count: int) -> list[float]:
        """Make the next steps, and return their losses. Examples are drawn while a GPU computes the step before."""
        losses, following = [], self.draw()
        torch.backends.cuda.enable_cudnn_sdp(True)  # as for users of the library; bench.training.model turns it off for ours
        try:
            for _ in range(count):
                loss = self.queue(*following)
                following = self.draw()
                losses.append(loss.item())
        finally:
            torch.backends.cuda.enable_cudnn_sdp(False)
            self.step -= 1  # the examples that were drawn and not used
        return losses

    def queue(self, ids: Tensor, labels: Tensor) -> Tensor:
        """One step, without waiting for the GPU: mean cross-entropy over the answer tokens, clipping, AdamW."""
        self.optimizer.zero_grad()
        ids, labels = (part.to(self.device, non_blocking=True) for part in (ids, labels))
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.low):
            logits = logits_of(self.model, ids)
        loss = F.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), ignore_index=IGNORED)
        loss.backward()
        nn.utils.clip_grad_norm_(self.module.parameters(), self.recipe.clip_norm)
        self.optimizer.step()
        return loss.detach()


def logits_of(model: nn.Module, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
    found = model(ids)
    return found if isinstance(found, Tensor) else found.logits  # Hugging Face returns more


def right_padded(examples: Examples, width: int | None = None) -> tuple[Int[Tensor, "B T-1"], Int[Tensor, "B T-1"]]:
    """Input tokens, and for each the next token if it belongs to the answer, else ``IGNORED``; padded to ``width`` tokens."""
    more = (0, max(0, (width or 0) - examples.tokens.shape[1]))
    tokens, counts = F.pad(torch.from_numpy(examples.tokens), more, value=PAD), F.pad(torch.from_numpy(examples.targets), more)
    return tokens[:, :-1], tokens[:, 1:].masked_fill(~counts[:, 1:], IGNORED)


def library_models(suite: Suite) -> list[Rival]:
    """Models for the suite's task: all references of x-transformers; of Hugging Face GPT-2 (learned) and Llama (RoPE)."""
    import transformers
    import x_transformers

    transformers.utils.logging.set_verbosity_error()
    task, spec = suite.make_task(suite.tasks[0].task), suite.model
    symbols, tokens, d = len(task.vocabulary), task.tokens(task.longest), spec.width
    options: dict[str, dict[str, object]] = {
        "nope": {"attn_flash": True},
        "learned": {"attn_flash": True},
        "rope": {"attn_flash": True, "rotary_pos_emb": True, "rotary_emb_dim": d // spec.heads},
        "alibi": {"attn_flash": True, "alibi_pos_bias": True},
        "t5": {"rel_pos_bias": True},  # refuses torch's fused attention
    }
    common = {
        "vocab_size": symbols, "bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD, "tie_word_embeddings": False,
        "use_cache": False,
    }  # fmt: skip
    configs = {
        ("GPT-2", "learned"): transformers.GPT2Config(
            n_positions=tokens, n_embd=d, n_layer=spec.layers, n_head=spec.heads, n_inner=spec.mlp_width,
            resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, activation_function="gelu",  # as ours; the default is much slower
            **common,
        ),
        ("Llama", "rope"): transformers.LlamaConfig(
            intermediate_size=round(spec.mlp_width * 2 / 3),  # SwiGLU has three matrices: as many parameters as our two
            hidden_size=d, num_hidden_layers=spec.layers, num_attention_heads=spec.heads, max_position_embeddings=tokens,
            **common,
        ),
    }  # fmt: skip
    models = list[Rival]()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for encoding, own in options.items():
            layers = x_transformers.Decoder(
                dim=d, depth=spec.layers, heads=spec.heads, attn_dim_head=d // spec.heads, ff_mult=spec.mlp_width / d,
                ff_no_bias=True, verbose=False, **own,
            )  # fmt: skip
            positions = {"use_abs_pos_emb": encoding == "learned", "max_seq_len": tokens}
            module = x_transformers.TransformerWrapper(num_tokens=symbols, attn_layers=layers, **positions)
            models.append(("x-transformers", encoding, module))
        for key, config in configs.items():
            models.append((*key, transformers.AutoModelForCausalLM.from_config(config)))
    return models


def take_turns(contestants: Mapping[K, Callable[[], object]], rounds: int, steps: int = 1) -> dict[K, float]:
    """Median ms of a step of every contestant, whose calls make ``steps`` and end when a GPU's work is done.

    The first call is not counted. The order moves by one each round, so that drift affects all alike.
    """
    names, times = list(contestants), {name: list[float]() for name in contestants}
    for call in contestants.values():
        call()
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            before = time.perf_counter()
            contestants[name]()
            times[name].append(time.perf_counter() - before)
    return {name: 1e3 * median(own) / steps for name, own in times.items()}


def machine(device: torch.device, commit: str | None, quick: bool) -> str:
    """Where and with what a measurement was made; ``commit`` is of the code, if git does not know it."""
    versions = ", ".join(f"{name} {version}" for name, version in package_versions("x-transformers", "transformers").items())
    smoke = "**A smoke run: its numbers mean nothing.** " if quick else ""
    where = f"{device_name(device)}, {available_cores()} cores, commit {commit or current_commit()}"
    return f"{smoke}{now()[:10]}, {where}; {versions}."


def versus(rows: pd.DataFrame, column: str) -> str:
    """Markdown: a row an encoding, a column each value of ``column``: our ms, and the fastest other contestant over ours."""
    ours = rows[rows.who == OURS].pivot(index="encoding", columns=column, values="ms")
    others = rows[~rows.who.str.startswith(OURS)].groupby(["encoding", column]).ms.min().unstack()
    ratio = (others / ours).reindex(index=ours.index, columns=ours.columns)
    factors = ratio.map(" ({:.2f}×)".format, na_action="ignore").fillna("")
    table = (ours.map("{:.3g}".format) + factors)[rows[column].unique()].loc[rows.encoding.unique()]
    table["mean"] = np.exp(np.log(ratio).mean(axis=1)).map("{:.2f}×".format, na_action="ignore").fillna("")
    return table.to_markdown(colalign=["left"] + ["right"] * table.shape[1])
