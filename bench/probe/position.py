"""Position probe (Haviv et al. 2022, adihaviv/nopos): how well the absolute position can be read out of each layer.

The model is frozen. For each layer a classifier d → 2d → ReLU → positions is trained on the residual stream of some
sequences and tested on others; the error is |argmax − t|, averaged over the positions t. Controls: the same model before
its training, and the mean distance of two random positions, (T² − 1)/3T for T positions, which is about T/3. The
sequences are prompts of one length, without ``<sep>`` and answer, since few tokens of a prompt show their place: ``<bos>``, and
the last two of key retrieval. (For a task with shorter prompts than answers, such as text, whole sequences.) Features
are standardised first. All classifiers are trained at once, as batched products.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from bench.runs.run_training import build_model
from bench.training.model import Block, Decoder

from .record import Value
from .subject import Subject, as_tokens

TRAINED, TESTED = 384, 96
"""Sequences that the classifiers are trained and tested on."""
STEPS, BATCH, RATE = 150, 256, 1e-2
CHUNK = 32
"""Sequences that share a forward pass, and the draw of a random encoding."""


def measure(subject: Subject) -> list[Value]:
    """The error by layer, of this model and of the untrained one, on sequences of length L and past it."""
    values, models = [], (subject.model, build_model(subject.run))
    for length in dict.fromkeys((subject.run.train_length, subject.past)):
        examples = subject.examples(length, TRAINED + TESTED)
        start, sizes = torch.from_numpy(examples.answer_start), torch.from_numpy(examples.sizes)
        counts = sizes if (sizes - start).max() >= start.max() else start - 1  # all tokens, or those before <sep>
        width = int(counts.max())
        states = []
        for model in models:
            announced, generator = subject.context(length)
            parts = as_tokens(examples).split(CHUNK)
            states.append(torch.cat([read_states(model, part, announced, generator)[:, :, :width] for part in parts], 1))
        inside = torch.arange(width) < counts[:, None]
        errors = probe_errors(torch.cat(states), inside, TRAINED).unflatten(0, (2, -1)).tolist()
        for quantity, by_layer in zip(("error", "untrained"), errors, strict=True):
            values += [Value(quantity, error, length, layer) for layer, error in enumerate(by_layer)]
        values.append(Value("chance", (width**2 - 1) / (3 * width), length))
    return values


@torch.no_grad()
def read_states(
    model: Decoder, tokens: Int[Tensor, "B T"], announced_length: int, generator: torch.Generator | None
) -> Float[Tensor, "n+1 B T D"]:
    """The residual stream at the input of each of n layers, with what the encoding adds to it there, and after the last layer.

    These are the inputs of the norms, read by hooks.

    Arguments:
        announced_length, generator: see ``Decoder.forward``.
    """
    states: list[Tensor] = []
    norms = [*(block.attention_norm for block in model.blocks if isinstance(block, Block)), model.norm]
    hooks = [norm.register_forward_pre_hook(lambda norm, inputs: states.append(inputs[0])) for norm in norms]
    model.eval()
    try:
        model(tokens, announced_length, generator)
    finally:
        for hook in hooks:
            hook.remove()
    return torch.stack([state.reshape(*tokens.shape, -1) for state in states])


def probe_errors(states: Float[Tensor, "S N T D"], inside: Bool[Tensor, "N T"], trained: int) -> Float[Tensor, " S"]:
    """Train one classifier of positions for each of S sets of hidden states; their errors on held-out sequences, in tokens.

    Arguments:
        inside: the tokens that count.
        trained: sequences to train on; the others are held out.
    """
    rows, held_out = (states[:, part][:, inside[part]] for part in (slice(trained), slice(trained, None)))
    places = torch.arange(states.shape[2]).expand(states.shape[1:3])
    labels, truth = places[:trained][inside[:trained]], places[trained:][inside[trained:]]
    mean, std = rows.mean(1, keepdim=True), rows.std(1, keepdim=True).clamp_min(1e-5)
    rows, held_out = (rows - mean) / std, (held_out - mean) / std
    sets, _, width = rows.shape
    source = torch.Generator().manual_seed(0)

    def initial(*shape: int) -> Tensor:
        return (torch.randn(sets, *shape, generator=source) * shape[0] ** -0.5).requires_grad_()

    weights = [initial(width, 2 * width), initial(2 * width, states.shape[2])]
    biases = [torch.zeros(sets, 1, w.shape[2], requires_grad=True) for w in weights]

    def logits(x: Tensor) -> Tensor:
        return torch.baddbmm(biases[1], torch.baddbmm(biases[0], x, weights[0]).relu(), weights[1])

    optimizer = torch.optim.Adam([*weights, *biases], RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for _ in range(STEPS):
        batch = torch.randint(rows.shape[1], (BATCH,), generator=source)
        scores = logits(rows[:, batch])
        loss = F.cross_entropy(scores.flatten(0, 1), labels[batch].repeat(sets))
        optimizer.zero_grad()
        (loss * sets).backward()  # each classifier as if it were trained alone
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        wrong = (logits(held_out).argmax(-1) - truth).abs().float()
    by_position = [wrong[:, truth == t].mean(1) for t in truth.unique()]
    return torch.stack(by_position).mean(0)
