"""The board's prose, as markdown: what it shows, how to read its words and numbers, and how its runs were trained."""

import re
from collections.abc import Sequence

import numpy as np

from bench.result import QUIET, SOURCE_MEANINGS
from leaderboard.data.grid import Grid
from leaderboard.figures.cost import LARGEST_NOISE, NOISE
from leaderboard.format import ABSENT, BUSY, FAMILIES, FLAG, SECOND_HAND, VISIBLE_CHANCE, number_range, share
from leaderboard.stats import bootstrap, significance
from leaderboard.stats import scores as st
from leaderboard.stats.rows import Row
from leaderboard.stats.summary import BASE

from . import columns, tables
from .answer import seeds_text
from .markdown import code, escape
from .task_metrics import CELL_TEXT, REACH_MEANING

ACCURACY = f"{100 * (NOISE - 1):.0f} %, seldom {100 * (LARGEST_NOISE - 1):.0f} %"
"""Of step times."""
TITLE = "Length-generalisation leaderboard of positional encodings"
ONE_DIFFERENCE = """\
Rows of a suite's first table differ only in the positional encoding, except that some published methods add a training stage at
lengths up to L."""
ABOUT = f"""\
Transformers are trained from scratch at lengths up to L and tested at lengths up to L′. {ONE_DIFFERENCE}
The **score** is, past L, the mean of exact match and token accuracy, mean over tasks: 1 is perfect, 0 is guessing. **Reach** is
the length, in multiples of L, at which exact match (guessing taken out) falls under one half; **l ≤ L** is exact match at the
training lengths. The test separates no two rows of a **tier**."""

SOURCE_LIST = "; ".join(f"*{kind}*: {meaning}" for kind, meaning in SOURCE_MEANINGS.items())
EXPLANATION = f"""\
- **Exact match**: the share of test examples whose whole answer, `<eos>` included, is correct under greedy decoding. All runs
  of a suite are tested on the same examples, so two runs with the same answers have the same numbers. Accuracy below chance
  often means that the output is no valid answer at all: on parity, `<eos>` in place of the bit.
- **Score**: a cell, one run at one test length, scores {CELL_TEXT}:
  (accuracy − guessing) / (1 − guessing). **Token accuracy** is the share of answer tokens that are predicted right when all
  tokens before them are given, right ones even where the model was wrong. Guessing an answer is the best guess without the
  prompt; guessing a token is the most frequent one at its place, for that length. So a score of .3 may come from single
  tokens, with no whole answer right. Where the guessing level of tokens is not recorded, as in results of version 1, it is
  exact match alone. A run's score on a task is the mean of its cells past L with
  weights log(l_i / l_(i−1)), from l_0 = L on, so that every octave counts alike; then floored at 0. Task columns show the
  mean over seeds, in the full table, from three seeds on, ± half-width of its 95 % Student-t interval, which covers variation
  between seeds but not between sets of test examples. The overall score is the mean over tasks. In brackets its 95 % interval:
  stratified bootstrap (seeds are resampled within each task, {bootstrap.REPLICATES:,} replicates), widened for the small number
  of seeds. In simulations with five tasks these intervals cover the true value in 93 to 97 % of cases, with three seeds as with
  five; in 87 % where three seeds succeed or fail by chance on only two tasks. Those of two seeds were not simulated. A single
  seed gives no interval.
- **Reach**: {REACH_MEANING}. ≥: the test ends first. <: under it at the shortest length tested already. The overall reach is
  the geometric mean over tasks, marked if any of them is; ~ if both marks occur.
- **l ≤ L**: exact match, the mean over test lengths up to L, where examples may have occurred in training, as most of
  the shortest have.
- **IQM**, the interquartile mean: the scores of all runs on all tasks are sorted, a quarter of them (rounded down: 6 of 25, 3
  of 15) is dropped at each end, and the rest is averaged.
- **Separated**: two encodings are separated if their scores differ by more than chance explains: a step-down maximum test
  (Romano & Wolf 2005) on the difference of the scores over its standard error. p is adjusted for all pairs of encodings on
  the board: the probability of even one false separation is {significance.RISK};
  `leaderboard/RULES.md` has them, and the power. Not separated does not mean equal. Encodings that share a training are
  tested as if they did not, which makes it harder to separate them.
- **Seeds**: every encoding gets those of the suite. On the published board of `small` these are 0 to 4. Over these the
  first of each table, and those that the test does not separate from it, get five more, 5 to 9. This rule was fixed before the
  runs and is applied once, so a row with five seeds can share a tier with rows that have ten.
- **Tier**: rows are sorted by score. A tier is a stretch of rows of which the test separates no two; the next one begins at
  the first row that is separated from a row of the tier. So rows of neighbouring tiers need not be separated. Where all
  encodings have a single seed, nothing can be tested: there are no tiers, and small differences mean nothing. An encoding
  with a single seed, or without a run on some task, is in no tier.
- **Significance**: *places* are the positions among the tested rows of the table that remain possible for an encoding, given
  which pairs are separated. *P(better)*, the probability of improvement, is how often one of its runs beats a run of the next
  tested row on the same task, averaged over tasks; a tie counts ½. In brackets its 95 % interval, computed as above. The
  interval has no width if on every task all runs of one encoding beat all runs of the other, or none do: more seeds could
  still show a difference.
- **Graded scores**: token accuracy past L, with guessing taken out, and the negative log-likelihood of an answer token
  (teacher-forced, in nats), averaged over lengths like the score. They show differences where no encoding answers exactly.
  Pairs are counted by the likelihood of a token, the exponential of minus that number.
- **{FLAG}**: on some task exact match at l ≤ L is below {share(st.GATE)}. The encoding has not learned that task at its
  training lengths, so its score there says little about extrapolation. Nothing is excluded for it. The flag depends on the
  mean over seeds; the table *Exact match at l ≤ L* also counts the seeds below the threshold.
- **Source**: how sure it is that a row shows the published method. {SOURCE_LIST}. {SECOND_HAND} marks second-hand rows.
- **Length settings**: settings that are lengths in tokens. *As published*: the number that the authors give, whatever L is.
  *Scaled*: derived from L and L′. Where the two differ, both can run: `x`, and `x_scaled`; a row is what has run.
- **Parameters**: those of the encoding alone. **Step time**: the time of forward and backward pass at L relative to
  {BASE}'s, measured side by side with it on one task (its name, and times at longer lengths, are on the encoding's page),
  accurate to some {ACCURACY}; where that was not measured, from the timings of the runs: medians over seeds,
  geometric mean over tasks. *l > L*: at the longest length measured. {BUSY} marks times measured while the machine was busy
  with other work, and the process had less than {100 * QUIET:.0f} % of a core. Ratios depend on the processor too: of 52
  encodings, 12 were 9 to 22 % slower, relative to {BASE}, on one of Intel than on one of AMD. **Memory**, relative to {BASE}'s:
  peak memory of a step at the longest length measured.
- *missing*: no result yet. *failed*: the run ended in an error. A *diverged* run (its loss was not finite) counts as zero."""

OTHER_VERSION = "Produced by another version of the suite or harness; these numbers do not compare with those above."


def signs(rows: Sequence[Row]) -> dict[str, str]:
    """Word of the first tables → what it means, for all words and signs that they use. Without names from results."""
    shown = "".join(column.text(row) for column in (columns.MEAN_REACH, columns.STEP_TIME) for row in rows)
    shown += "".join(tables.marks(row) for row in rows)
    reach = {"≥": "on some task the test ends first", "<": "some task fails at its shortest length", "~": "both occur"}
    ends = "; ".join(f"{sign} {meaning}" for sign, meaning in reach.items() if sign in shown)
    found = {}
    if any(row.tier for row in rows):
        found["Tier"] = "the test separates no two rows of one tier: differences within it may be chance"
    found["Reach"] = "multiple of L at which exact match, guessing taken out, falls under one half; geometric mean over tasks"
    found["Reach"] += f" ({ends})" if ends else ""
    found["Score"] = f"past L, {CELL_TEXT}: 0 is guessing, 1 perfect; mean over tasks, and under the name of each task"
    found["Step time"] = f"of a training step, relative to {BASE}'s, accurate to some {ACCURACY}"
    if any(row.step_time is None for row in rows):
        found["Step time"] += f"; {ABSENT} not measured on an idle machine, or without {BASE} on the same machine"
    present = {row.record.family for row in rows if row.record}
    if families := [f"*{title}*, {meaning}" for name, (title, meaning) in FAMILIES.items() if name in present]:
        found["Family"] = "; ".join(families)
    meanings = {FLAG: f"has not learned some task (exact match at l ≤ L under {share(st.GATE)})"}
    meanings |= {SECOND_HAND: f"second-hand, {SOURCE_MEANINGS['second-hand']}", BUSY: "timed on a busy machine"}
    marked = [f"{sign} {meaning}" for sign, meaning in meanings.items() if sign in shown]
    asked = sorted(set(re.findall(r"\d+/(\d+)", shown)), key=int)
    marked += [f"n/{count} only n of {count} seeds so far" for count in asked]
    marked += [f"{ABSENT} some runs are missing or failed"] if any(row.score is None for row in rows) else []
    return found | ({"Signs": "; ".join(marked)} if marked else {})


def experiment_setup(grid: Grid) -> str:
    """One paragraph: which model was trained, on which tasks and lengths, and how it was tested."""
    model = grid.suite.model if grid.suite else None
    size = f" of {model.layers} layers, {model.heads} heads and width {model.width}" if model else ""
    spans = [f"{columns.task_markdown(c.task)} ({escape(c.variant)}) {c.train_length} → {c.lengths[-1]}" for c in grid.columns]
    return (
        f"Causal transformers{size}, trained from scratch at lengths 1 … L and tested up to L′, L → L′: {', '.join(spans)}. "
        f"{seeds_text(grid)}; {number_range([c.examples for c in grid.columns])} test examples per length; "
        f"{number_range([c.steps for c in grid.columns])} training steps. {chance_levels(grid)}"
        f"Suite version {grid.version}, fingerprint {code(grid.fingerprint)}."
    )


def chance_levels(grid: Grid) -> str:
    """The accuracy of guessing at l > L, for tasks where it is visible."""
    levels = [(columns.task_markdown(c.task), float(np.mean(np.array(c.chance)[c.at > c.train_length]))) for c in grid.columns]
    visible = [f"{share(level)} on {task}" for task, level in levels if level > VISIBLE_CHANCE]
    return f"Guessing gives an exact match of {' and '.join(visible)}. " if visible else ""
