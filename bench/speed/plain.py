"""Generators in plain Python: a loop over examples, a draw a symbol. They draw from the laws of ``tasks`` in the variants that
suite ``small`` uses, so that the two can be set side by side, and lay the examples out in three ways:

``lists``: nothing but dictionary look-ups and lists, as lean as it gets.
``text``: an example is a string; its symbols are looked up one by one, and tokens and mask become a tensor each. Modelled on
Jelassi et al. (2024), repository sjelassi/transformers_ssm_copy, ``synthetic_exps/data_utils.py``, who pack several examples
into a context in training where this pads one.
``tokenizer``: prompt and whole are strings for a tokenizer of transformers, whose collator pads tokens and labels. Modelled on
Kazemnejad et al. (2023), repository McGill-NLP/length-generalization, ``scripts/dataset_builders`` and
``src/data/s2s_dl_factory.py``, who tokenize a stored data set once, one example after the other, and collate in every step.

Draws are the leanest in all three, whatever the papers' own draw with. The last two end in tensors of tokens and labels, the
first in arrays.
"""

import random
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from tasks import PAD, Examples, Task, unknown
from tasks.copying import LETTERS
from tasks.key_retrieval import VALUES

Drawn = tuple[list[str], list[str]]
"""Symbols of prompt and answer."""


def copying(task: Task, length: int, rng: random.Random) -> Drawn:
    symbols = [rng.choice(LETTERS) for _ in range(length)]
    return symbols, list(symbols)


def addition(task: Task, length: int, rng: random.Random) -> Drawn:
    widths = [length, rng.randint(1, length)]
    rng.shuffle(widths)
    a, b = (rng.randint(10 ** (w - 1) if w > 1 else 0, 10**w - 1) for w in widths)
    prompt = [*reversed(str(a)), "+", *reversed(str(b))]
    return prompt, list(reversed(str(a + b)))


def parity(task: Task, length: int, rng: random.Random) -> Drawn:
    bits = [rng.choice("01") for _ in range(length)]
    return bits, [str(bits.count("1") % 2)]


def key_retrieval(task: Task, length: int, rng: random.Random) -> Drawn:
    filler = [f"v{rng.randrange(VALUES)}" for _ in range(length)]
    key, value = f"k{rng.randrange(task.key_count)}", f"v{rng.randrange(VALUES)}"  # type: ignore[attr-defined]
    place = rng.randint(0, length)
    return [*filler[:place], "#", key, value, *filler[place:], "?", key], [value]


def sorting(task: Task, length: int, rng: random.Random) -> Drawn:
    numbers = rng.sample(range(task.count), length)  # type: ignore[attr-defined]
    return [str(n) for n in numbers], [str(n) for n in sorted(numbers)]


GENERATORS: dict[tuple[str, str], Callable[[Task, int, random.Random], Drawn]] = {
    ("copying", "repeat"): copying,
    ("addition", "reversed"): addition,
    ("parity", "answer"): parity,
    ("key_retrieval", "needle"): key_retrieval,
    ("sorting", "unique"): sorting,
}


def generator(task: Task) -> Callable[[Task, int, random.Random], Drawn]:
    """
    Raises:
        InputError: a task or variant that is not written here.
    """
    make = GENERATORS.get((task.name, task.variant))
    if make is None:
        raise unknown("plain generator", f"{task.name} {task.variant}", [" ".join(key) for key in GENERATORS])
    return make


def sample(task: Task, lengths: Sequence[int], rng: random.Random) -> Examples:
    """One example of each length, by lists."""
    make, ids = generator(task), task.vocabulary.ids
    rows, starts = [], []
    for length in lengths:
        prompt, answer = make(task, length, rng)
        rows.append([ids[symbol] for symbol in ["<bos>", *prompt, "<sep>", *answer, "<eos>"]])
        starts.append(len(prompt) + 2)
    widest = max(len(row) for row in rows)
    padded = [row + [PAD] * (widest - len(row)) for row in rows]
    return Examples(np.array(padded), np.array(starts), np.array([len(row) for row in rows]), np.array(lengths))


Padded = tuple[Int[Tensor, "N T"], Int[Tensor, "N T"]]
"""Tokens, and the same where they count; ``IGNORED`` elsewhere."""
IGNORED = -100
Way = Callable[[Sequence[int], random.Random], object]
"""One example of each length."""


def by_lists(task: Task) -> Way:
    return lambda lengths, rng: sample(task, lengths, rng)


def by_text(task: Task) -> Way:
    make, ids = generator(task), task.vocabulary.ids

    def encode(text: str) -> Int[Tensor, " T"]:
        return torch.tensor([ids[symbol] for symbol in text.split()])

    def draw(lengths: Sequence[int], rng: random.Random) -> Padded:
        rows, masks = [], []
        for length in lengths:
            prompt, answer = make(task, length, rng)
            rows.append(encode(" ".join(["<bos>", *prompt, "<sep>", *answer, "<eos>"])))
            masks.append(torch.tensor([0] * (len(prompt) + 2) + [1] * (len(answer) + 1)))
        tokens, counts = (pad_sequence(parts, batch_first=True, padding_value=PAD) for parts in (rows, masks))
        return tokens, torch.where(counts == 1, tokens, IGNORED)

    return draw


def by_tokenizer(task: Task) -> Way:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import DataCollatorForSeq2Seq, PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel(vocab=dict(task.vocabulary.ids), unk_token="<pad>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    encode = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", padding_side="right")
    collate, make = DataCollatorForSeq2Seq(encode), generator(task)

    def draw(lengths: Sequence[int], rng: random.Random) -> Padded:
        rows = []
        for length in lengths:
            symbols, answer = make(task, length, rng)
            prompt = " ".join(["<bos>", *symbols, "<sep>"])
            before = encode(prompt, add_special_tokens=False).input_ids
            tokens = encode(" ".join([prompt, *answer, "<eos>"]), add_special_tokens=False).input_ids
            labels = [IGNORED] * len(before) + tokens[len(before) :]
            rows.append({"input_ids": tokens, "labels": labels, "attention_mask": [1] * len(tokens)})
        batch = collate(rows)
        return batch["input_ids"], batch["labels"]

    return draw


WAYS: Mapping[str, Callable[[Task], Way]] = {"lists": by_lists, "text": by_text, "tokenizer": by_tokenizer}


def tensors(examples: Examples) -> Padded:
    """Examples of ours as those ways have them."""
    return torch.from_numpy(examples.tokens), torch.from_numpy(np.where(examples.targets, examples.tokens, IGNORED))


def train_lengths(train_length: int, size: int, rng: random.Random) -> list[int]:
    """As ``tasks.train_batch``: uniform in 1 … ``train_length``."""
    return [rng.randint(1, train_length) for _ in range(size)]
