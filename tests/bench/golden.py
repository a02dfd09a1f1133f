"""Numbers that the authors' own implementations give on fixed inputs: ``golden/*.json``, one file per encoding.

A file names its ``source`` (repository, path: function, commit) and holds ``inputs``, ``parameters`` and ``outputs``. A tensor
given by ``shape``, ``phase``, ``scale`` and ``offset`` has the value offset + scale·sin(0.7·n + phase) at flat index n; ``"T"``
in a shape is the number of tokens. Unless a file says otherwise: 4 heads of width 16, one causal sequence, ids 0 … T − 1;
outputs are [head][row][key ≤ row] (``bias``, ``scores``, ``weights``) or [head][row][channel] (``output``, ``q``, ``k``) for
the listed ``rows``. Numbers are float64 with 9 significant digits.

Encodings are built for a model of two layers and compared in the second one; a parameter with a layer axis is NaN in the first,
so that reading the wrong layer shows.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from helpers import LAYER, make_encoding
from torch import Tensor

from bench.encodings import At, Encoding
from bench.encodings.attention import masked_softmax, scores

HEADS, HEAD_WIDTH = 4, 16


def load(name: str) -> dict[str, Any]:
    return json.loads((Path(__file__).parent / "golden" / f"{name}.json").read_text())


def wave(spec: dict[str, Any], tokens: int = 0) -> Tensor:
    """The tensor that a file describes, in float64."""
    if "values" in spec:
        values = torch.tensor(spec["values"], dtype=torch.float64)
        return values.reshape(spec["shape"]) if "shape" in spec else values
    shape = [tokens if size == "T" else size for size in spec["shape"]]
    n = torch.arange(torch.Size(shape).numel(), dtype=torch.float64)
    return (spec["offset"] + spec["scale"] * torch.sin(0.7 * n + spec["phase"])).reshape(shape)


def cases(outputs: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The cases by number of tokens: T, rows, and what was computed."""
    return (case for case in outputs.values() if isinstance(case, dict) and "T" in case)


def build(name: str, parameters: dict[str, Tensor], **sizes: int) -> Encoding:
    """An encoding in float64 whose parameters are the given tensors: whole, or of ``LAYER`` if a layer axis is missing.

    Arguments:
        parameters: parameter name → tensor; all parameters of the encoding must be given.
        sizes: ``train_tokens`` and the like, see ``helpers.setup_of``.
    """
    encoding = make_encoding(name, HEADS, HEAD_WIDTH, layers=2, **sizes)
    own = dict(encoding.named_parameters())
    assert own.keys() == parameters.keys(), f"expected values of {sorted(own)}"
    with torch.no_grad():
        for key, value in parameters.items():
            if value.shape == own[key].shape:
                own[key].copy_(value)
            else:
                own[key].fill_(torch.nan)
                own[key][-1] = value.reshape(own[key].shape[1:])
    return encoding.eval()


class Pass:
    """The hooks of one encoding in ``LAYER``, called in the model's order on the inputs of a golden file.

    Arguments:
        channels: order of the channels of q and k; the default is the file's.
    """

    def __init__(self, encoding: Encoding, inputs: dict[str, Any], tokens: int, channels: Sequence[int] = range(HEAD_WIDTH)):
        given = {key: wave(spec, tokens) for key, spec in inputs.items()}
        self.encoding = encoding
        at = At(tokens, layer=LAYER, source=lambda: given["hidden"])
        at = replace(at, ids=encoding.positions(torch.zeros(1, tokens, dtype=torch.long), at))
        self.at = replace(at, shared=encoding.prepare(at))
        zero = torch.zeros(1, HEADS, tokens, HEAD_WIDTH, dtype=torch.float64)
        self.v = given.get("v", zero)
        q, k = (given.get(name, zero)[..., list(channels)] for name in "qk")
        self.q, self.k = encoding.rotate(q, k, self.at)
        self.bias = encoding.bias(self.q, self.k, self.at)
        """What is added to q·k/√d, without the mask."""

    @property
    def scores(self) -> Tensor:
        """What the softmax gets, for encodings that do not override ``attend``."""
        s = scores(self.q, self.k, self.encoding.setup)
        return s if self.bias is None else s + self.bias

    @property
    def weights(self) -> Tensor:
        """Attention weights, for encodings that do not override ``attend``."""
        return masked_softmax(scores(self.q, self.k, self.encoding.setup), self.bias, self.at)

    @property
    def output(self) -> Tensor:
        return self.encoding.attend(self.q, self.k, self.v, self.bias, self.at)


def assert_rows(ours: Tensor, theirs: Sequence, rows: Sequence[int], tolerance: float = 1e-6) -> None:
    """Assert that the rows of ours, [*1, H, T, n], are theirs, [H][row][n or the first row + 1].

    Arguments:
        tolerance: largest difference, as a share of the largest value (of 1, if that is smaller).
    """
    ours = ours.detach().double()
    ours = ours[0] if ours.dim() == 4 else ours
    expected = [[torch.tensor(row, dtype=torch.float64) for row in head] for head in theirs]
    largest = max(1.0, *(row.abs().max().item() for head in expected for row in head))
    assert len(ours) == len(expected) and all(len(head) == len(rows) for head in expected)
    for head, lines in enumerate(expected):
        for i, line in zip(rows, lines, strict=True):
            torch.testing.assert_close(ours[head, i, : len(line)], line, atol=tolerance * largest, rtol=0)
