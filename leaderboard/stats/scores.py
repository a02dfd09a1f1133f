"""Scores of runs, computed from accuracy by length. The unit is one run: its accuracies at different lengths are not
independent.

Shapes: S runs with the same test lengths, N lengths.
"""

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from leaderboard.results.columns import BY_LENGTH

GATE = 0.95
"""Exact match within the training length below which longer lengths say nothing about extrapolation."""
HALF = 0.5
"""Chance-corrected exact match at which the length limit is reached."""
FUZZ = 1e-9
"""Tolerance for rounding: a mean of exact hundredths may be this little below a threshold that it meets."""


def without_guessing(accuracy, chance):
    """(accuracy − chance)/(1 − chance): 0 is chance, 1 is perfect. This is Cohen's kappa with a known chance level."""
    return (accuracy - chance) / (1 - chance)


def length_weights(lengths: Int[np.ndarray, " N"], train_length: int) -> Float[np.ndarray, " N"]:
    """Weight of each test length in a mean beyond L: log(l_i/l_{i−1}) for l_i > L, with l_0 = L, scaled to a sum of 1.

    Each octave beyond L has the same weight, however many test lengths it has; 0 for l ≤ L.
    """
    beyond = np.maximum(lengths, train_length)
    octaves = np.log(beyond[-1] / train_length) or 1  # none beyond L: all weights are 0
    return np.diff(np.log(beyond), prepend=np.log(train_length)) / octaves


def cells(runs: pd.DataFrame) -> Float[np.ndarray, "S N"]:
    """Score of each run at each length, of runs with equal lengths: the only place that decides what is ranked.

    ``exact``: exact match, chance-corrected. ``bits``: 1/perplexity, the geometric mean of the probabilities of the right
    symbols, corrected for uniform guessing. Its spread over seeds is alike for good and bad encodings; the spread of the loss
    is not.
    """
    of_exact = without_guessing(np.stack(runs["exact"]), np.stack(runs["chance"]))
    guess = 1 / np.maximum(runs["symbols"].to_numpy(float), 2)[:, None]
    of_bits = np.nan_to_num(without_guessing(np.exp(-np.stack(runs["nll"])), guess))  # a diverged run guesses
    return np.where(runs["score_is"].to_numpy()[:, None] == "bits", of_bits, of_exact)


def scored(runs: pd.DataFrame) -> pd.DataFrame:
    """The frame of runs with columns of one number per run.

    ``score``: mean beyond L of ``cells``, floored at 0 (a floor at each length would reward lucky guesses). ``token_score`` and
    ``nll_beyond``: the same means of chance-corrected token accuracy and of the loss. ``within``: mean exact match at l ≤ L;
    ``loss_within``: mean loss at l ≤ L, by which learning rates are chosen.
    """
    columns = {name: np.full(len(runs), np.nan) for name in ("score", "token_score", "nll_beyond", "within", "loss_within")}
    narrow = runs[[*BY_LENGTH, "train_length", "score_is", "symbols"]]
    for (train_length, _), places in narrow.groupby(["train_length", runs["length"].map(bytes)]).indices.items():
        group = narrow.iloc[places]
        lengths = group["length"].iloc[0]
        weights, inside = length_weights(lengths, train_length), lengths <= train_length
        columns["score"][places] = np.clip(cells(group) @ weights, 0, 1)  # a mean of ones may round to more than 1
        guessed = np.nan_to_num(np.stack(group["token_chance"]))
        columns["token_score"][places] = np.clip(without_guessing(np.stack(group["token"]), guessed) @ weights, 0, 1)
        loss = np.stack(group["nll"])
        columns["nll_beyond"][places] = loss[:, ~inside] @ weights[~inside]
        columns["within"][places] = np.stack(group["exact"])[:, inside].mean(1)
        columns["loss_within"][places] = loss[:, inside].mean(1)
    columns["loss_within"][(runs["status"] == "diverged").to_numpy()] = np.inf
    return runs.assign(**columns)


def curve(runs: pd.DataFrame) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, "S N"]]:
    """Relative lengths l/L, and each run's chance-corrected exact match there; 0 for diverged runs.

    Runs with another L (of other blocks) are interpolated in log length to the lengths of the first one.
    """
    relative = [lengths / L for lengths, L in zip(runs["length"], runs["train_length"], strict=True)]
    values = without_guessing(runs["exact"], runs["chance"]) * (runs["status"] != "diverged")
    at = np.log(relative[0])
    return relative[0], np.array([np.interp(at, np.log(own), value) for own, value in zip(relative, values, strict=True)])


def length_limit(at: Float[np.ndarray, " N"], mean: Float[np.ndarray, " N"]) -> tuple[float, str]:
    """The relative length at which half of the answers are right, and a mark.

    ``mean`` is chance-corrected and linear in log l between test lengths; lengths after the first failed one do not count. The
    mark is ``≥`` if the tests end first, and ``<`` if fewer than half are right at the shortest test length.
    """
    failed = np.flatnonzero(mean < HALF - FUZZ)
    if not len(failed):
        return float(at[-1]), "≥"
    after = failed[0]
    if after == 0:
        return float(at[0]), "<"
    part = max(0.0, (mean[after - 1] - HALF) / (mean[after - 1] - mean[after]))
    low, high = np.log(at[after - 1 : after + 1])
    return float(np.exp(low + part * (high - low))), ""


def limit_text(limit: float, mark: str) -> str:
    """``1.3``, ``≥8.0``; a dash where it is unknown."""
    return f"{mark}{limit:.{0 if limit >= 9.95 else 1}f}" if np.isfinite(limit) else "–"
