"""Blocks: intervals, a test of all pairs of encodings, rank intervals, and who is first under random weights of tasks.

A block is a seed with its batch order, lengths and steps, shared by all encodings. The unit is the mean over tasks of one
encoding in one block, minus the mean of all encodings in that block. Shapes: R encodings, B blocks, T tasks, P pairs, K
replicates.
"""

import warnings

import numpy as np
from jaxtyping import Float, Int
from scipy.special import stdtr, stdtrit

ALPHA = 0.05
"""Family-wise error rate: the largest probability of any false difference on a whole board, by design."""
LEVEL = 0.95
EQUAL = 0.03
"""Two encodings are practically equal if the 90 % interval of their difference is within ± this: two one-sided tests at 5 %."""
REPLICATES, CHUNK = 20_000, 250
"""Replicates of the bootstraps, and how many are handled at once, which bounds the memory."""
MOST = 10**8
"""Pairs of encodings times replicates: more than 100 encodings have fewer replicates, but at least 1,000."""
PRIOR = 8
"""Degrees of freedom of the pooled variance in the variance of an encoding's blocks: as many as nine blocks have."""
FUZZ = 1e-9


def centred(blocks: Float[np.ndarray, "R B"]) -> Float[np.ndarray, "R B"]:
    """Block means without what all encodings share in a block (how hard it is); NaN where a block lacks.

    The shared part is that of an additive fit, encoding + block, so that encodings with other blocks compare. Its mean over
    blocks is 0: with the same blocks for all, means of encodings stay. A block of a single encoding stays as it is.
    """
    values, shared, several = blocks, np.zeros(blocks.shape[1]), (~np.isnan(blocks)).sum(0) > 1
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a block without any encoding
        for _ in range(100):
            step = np.nanmean(values - np.nanmean(values, axis=1, keepdims=True), axis=0)
            step = np.where(several, step, 0)
            shared, values = shared + step, values - step
            if np.abs(step).max() < FUZZ:
                break
        return blocks - np.where(several, shared - shared.mean(where=several), 0)


def comparable(blocks: Float[np.ndarray, "R B"]) -> Float[np.ndarray, "R B"]:
    """NaN also where a block has a single encoding, which it cannot compare."""
    return np.where((~np.isnan(blocks)).sum(0) > 1, blocks, np.nan)


def means(values: Float[np.ndarray, "R B"]) -> Float[np.ndarray, " R"]:
    """Mean over blocks; NaN without any."""
    counts = (~np.isnan(values)).sum(1)
    return np.where(counts > 0, np.nansum(values, axis=1) / np.maximum(counts, 1), np.nan)


def moderated(
    blocks: Float[np.ndarray, "R B"], share: float = 1.0
) -> tuple[Float[np.ndarray, " R"], Float[np.ndarray, " R"], Float[np.ndarray, " R"]]:
    """Mean of each encoding's blocks, variance of a block, and the degrees of freedom of that variance.

    Three blocks say little about their own variance, and three equal ones would make t infinite. So the variance is averaged
    with that of the other encodings, which counts as ``PRIOR`` degrees of freedom, or as many as it has (Smyth 2004,
    Statistical Applications in Genetics and Molecular Biology 3). A single encoding keeps its own variance.

    Arguments:
        share: degrees of freedom of residuals per block beyond the first; 1 − 1/R for ``centred`` blocks.
    """
    counts, middle = (~np.isnan(blocks)).sum(1), means(blocks)
    squares = np.nansum((blocks - middle[:, None]) ** 2, axis=1)
    variances, freedom = with_others(squares[:, None], share * np.maximum(counts - 1, 0))
    return middle, variances[:, 0], freedom


def with_others(
    squares: Float[np.ndarray, "R K"], own: Float[np.ndarray, " R"]
) -> tuple[Float[np.ndarray, "R K"], Float[np.ndarray, " R"]]:
    """Variances from sums of squares and their degrees of freedom, averaged with the variance of the other encodings."""
    others = own.sum() - own
    prior = np.minimum(PRIOR, others)
    pooled = (squares.sum(0) - squares) / np.maximum(others, FUZZ)[:, None]
    return (prior[:, None] * pooled + squares) / np.maximum(prior + own, FUZZ)[:, None], prior + own


def interval(values: Float[np.ndarray, "R B"], about: Float[np.ndarray, " R"] | None = None) -> Float[np.ndarray, "R 2"]:
    """95 % Student-t interval of each encoding's mean over blocks; NaN with fewer than two blocks.

    Arguments:
        about: middle of each interval; None: the mean of the values.
    """
    middle, variances, freedom = moderated(values)
    counts, middle = (~np.isnan(values)).sum(1), middle if about is None else about
    half = stdtrit(np.maximum(freedom, FUZZ), (1 + LEVEL) / 2) * np.sqrt(variances / np.maximum(counts, 1))
    bounds = np.clip(np.stack([middle - half, middle + half], 1), 0, 1)
    return np.where((counts > 1)[:, None], bounds, np.nan)


def pair_ps(blocks: Float[np.ndarray, "R B"], seed: int = 0) -> Float[np.ndarray, "R R"]:
    """Adjusted p of each pair of encodings: of the hypothesis that their true mean scores are equal. NaN for single blocks.

    A step-down maximum test (Romano & Wolf 2005, JASA 100): the probability that any pair with equal means has p ≤ ``ALPHA`` is
    about ``ALPHA``, whatever the other pairs are. The statistic of a pair is its difference over its standard error. The joint
    distribution under the hypotheses is a wild bootstrap: residuals of the blocks with random signs (Liu 1988, Annals of
    Statistics 16), drawn for all encodings at once.

    Arguments:
        blocks: mean over tasks of each encoding in each block; NaN where a block is not complete.
    """
    found, blocks = np.full((len(blocks), len(blocks)), np.nan), comparable(blocks)
    rows = np.flatnonzero((~np.isnan(blocks)).sum(1) > 1)
    first, second = np.triu_indices(len(rows), 1)
    if len(rows) < 2:
        return found
    if len(rows) == 2:  # a paired t test: two encodings have too few signs for a bootstrap
        gaps = np.subtract(*blocks[rows])[~np.isnan(blocks[rows]).any(0)]
        with np.errstate(invalid="ignore", divide="ignore"):
            t = abs(gaps.mean()) / gaps.std(ddof=1) * len(gaps) ** 0.5
        found[rows, rows[::-1]] = np.nan_to_num(2 * stdtr(len(gaps) - 1, -t), nan=1.0)
        return found
    values = centred(blocks[rows])
    share = 1 - 1 / len(rows)  # of the freedom of residuals: the rest is spent on what encodings share in a block
    middle, variances, _ = moderated(values, share)
    counts = (~np.isnan(values)).sum(1)
    observed = t_of(middle[:, None], variances[:, None], counts, first, second)[:, 0]
    rng = np.random.default_rng(seed)
    spread = np.sqrt(share * counts * (counts - 1))[:, None]
    residuals = np.nan_to_num((values - middle[:, None]) / spread)  # with the mean's variance
    order, beyond = np.argsort(observed, kind="stable"), np.zeros(len(observed), int)
    squares = np.nansum((values - middle[:, None]) ** 2, axis=1) * counts / (counts - 1) / share
    chunk = min(CHUNK, 1 + MOST // 50 // len(first))
    rounds = max(1000, min(REPLICATES, MOST // len(first))) // chunk
    for _ in range(rounds):
        drawn = np.einsum("rb,rbk->rk", residuals, rng.choice(np.array([-1.0, 1.0]), (*residuals.shape, chunk)))
        left = np.maximum(squares[:, None] - counts[:, None] * drawn**2, 0)  # squares of the flipped residuals about their mean
        own, _ = with_others(left, counts - 1.0)
        largest = np.maximum.accumulate(t_of(drawn, own, counts, first, second)[order])
        beyond += (largest >= observed[order][:, None] - FUZZ).sum(1)
    adjusted = np.empty(len(observed))
    adjusted[order] = np.maximum.accumulate(((1 + beyond) / (1 + rounds * chunk))[::-1])[::-1]
    found[rows[first], rows[second]] = found[rows[second], rows[first]] = adjusted
    return found


def t_of(
    means: Float[np.ndarray, "R K"],
    variances: Float[np.ndarray, "R K"],
    counts: Int[np.ndarray, " R"],
    first: Int[np.ndarray, " P"],
    second: Int[np.ndarray, " P"],
) -> Float[np.ndarray, "P K"]:
    """|t| of each pair."""
    of_means = variances / counts[:, None]
    return np.abs(means[first] - means[second]) / np.sqrt(np.maximum(of_means[first] + of_means[second], FUZZ**2))


def differences(
    blocks: Float[np.ndarray, "R B"], level: float = LEVEL
) -> tuple[Float[np.ndarray, "R R"], Float[np.ndarray, "R R"]]:
    """Difference of each pair (row minus column), and the half-width of its interval; NaN where it cannot be tested."""
    blocks = comparable(blocks)
    share, counts = 1 - 1 / len(blocks), (~np.isnan(blocks)).sum(1)
    middle, variances, freedom = moderated(centred(blocks), share)
    of_means = np.where(counts > 1, variances / np.maximum(counts, 1), np.nan)
    own = share * np.maximum(counts - 1, 0)
    freedom = np.clip(freedom[:, None] + own, FUZZ, max(FUZZ, own.sum()))
    half = stdtrit(freedom, (1 + level) / 2) * np.sqrt(of_means[:, None] + of_means)
    return middle[:, None] - middle, half


def rank_intervals(scores: Float[np.ndarray, " R"], ps: Float[np.ndarray, "R R"]) -> Int[np.ndarray, "R 2"]:
    """Best and worst rank of each encoding that is compatible with the tests, for all at once.

    From 1 + the number of encodings that are significantly better, to the number of encodings − the number significantly worse.
    These are simultaneous confidence sets for all true ranks (Mogstad, Romano, Shaikh & Wilhelm 2024, Review of Economic
    Studies).
    """
    better = (ps <= ALPHA) & (scores[:, None] > scores)  # row better than column
    return np.stack([1 + better.sum(0), len(scores) - better.sum(1)], 1)


def under_random_weights(
    scores: Float[np.ndarray, "R B T"], seed: int = 0
) -> tuple[Float[np.ndarray, " R"], Int[np.ndarray, "R 2"]]:
    """Probability to be first, and 95 % interval of the rank, under uniformly random weights of tasks and resampled blocks.

    Arguments:
        scores: NaN where a block is not complete; every encoding has one that is.
    """
    rng, (count, blocks, tasks) = np.random.default_rng(seed), scores.shape
    known = (~np.isnan(scores).any(2)).astype(float)
    filled = np.where(known[..., None] > 0, scores, 0)
    plain = filled.sum(1) / known.sum(1)[:, None]
    ranks = np.zeros((count, count), int)
    for _ in range(REPLICATES // CHUNK):
        drawn = rng.multinomial(blocks, np.full(blocks, 1 / blocks), CHUNK).astype(float)  # [K B]
        total = drawn @ known.T  # [K R]
        means = np.einsum("kb,rbt->krt", drawn, filled) / np.maximum(total, 1)[..., None]
        means = np.where((total > 0)[..., None], means, plain)  # none of its blocks was drawn
        overall = np.einsum("krt,kt->kr", means, rng.dirichlet(np.ones(tasks), CHUNK))
        places = (-overall).argsort(1, kind="stable").argsort(1)
        ranks += np.bincount((np.arange(count) * count + places).ravel(), minlength=count**2).reshape(count, count)
    shares = ranks / ranks.sum(1, keepdims=True)
    reached = shares.cumsum(1)
    low = 1 + (reached < (1 - LEVEL) / 2).sum(1)
    high = 1 + (reached < (1 + LEVEL) / 2 - FUZZ).sum(1)
    return shares[:, 0], np.stack([low, np.minimum(high, count)], 1)
