"""A suite with conditions, grids of made-up runs of it, and their board."""

from board_helpers import whole_board
from synthetic_results import only_grid, result, suite

from leaderboard.data.conditions import attach
from leaderboard.render.robustness_text import robustness_words

HALF, TWICE = "learning_rate-x0.5", "learning_rate-x2"
NAMES = ["nope", "rope", "t5", "alibi"]
VARY = {"encodings": NAMES, "seeds": [0, 1], "conditions": {"learning_rate": ["x0.5", "x2"], "width": [128]}}
OF = suite(encodings=NAMES, seeds=[0, 1, 2], vary=VARY)


def words_of(found):
    return robustness_words(found).replace("\u00a0", " ")


def board_of(grid):
    return whole_board([grid]).replace("\u00a0", " ")


def runs_of(of, scores, spread=0.02):
    """Runs whose score past L is that of the encoding, a little more with each seed."""
    return [
        result(of, t.task, name, seed, (1, 1, *[score + spread * seed] * 2))
        for name, score in scores.items()
        for t in of.tasks
        for seed in of.seeds
    ]


BASE = {"nope": 0.9, "rope": 0.8, "t5": 0.7, "alibi": 0.6}
SWAPPED = BASE | {"nope": 0.6, "alibi": 0.9}


def varied(base=BASE, **conditions):
    """The grid of ``OF`` with conditions: scores of the encodings, or runs."""
    made = {}
    for condition, runs in conditions.items():
        of = OF.conditions[condition]
        made[of.name] = [only_grid(of, runs_of(of, runs) if isinstance(runs, dict) else runs)]
    return attach(only_grid(OF, runs_of(OF, base)), made)
