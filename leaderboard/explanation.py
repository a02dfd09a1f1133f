"""What the board's words and numbers mean, as markdown: once for all its tables."""

from bench.results import QUIET

from . import inference, significance
from . import statistics as st
from .markdown import share
from .summary import ANCHOR, BASE
from .tables import BUSY, FLAG

EXPLANATION = f"""\
- **Exact match**: the share of test examples whose whole answer, `<eos>` included, is right under greedy decoding. All runs of
  a suite meet the same test examples: two that answer alike have equal numbers. Under the level of guessing an answer often is
  none at all: on parity, an end mark where the bit should be.
- **In distribution** is the mean over test lengths l ≤ L, where examples may have occurred in training (parity's all have);
  the **task columns** show *OOD* (out-of-distribution) exact match, the mean over test lengths l > L, as mean over seeds ±
  half-width of its 95 % Student-t interval, which knows how seeds differ and not how sets of test examples would.
- **IQM**, the interquartile mean: the scores of all runs on all tasks are sorted, a quarter of them (rounded down: 6 of 25, 3
  of 15) is left out at either end, and the rest is averaged; tasks weigh the same, however many of their runs there are. A
  run's score is its mean over l > L of (exact match − chance) / (1 − chance), not under 0: 1 is perfect, 0 is guessing. In
  brackets its 95 % interval: seeds resampled within each task (stratified bootstrap, {inference.REPLICATES:,} replicates),
  widened for the small number of seeds. In simulations with five tasks such intervals hold the truth in 93 to 97 % of cases,
  with three seeds as with five; in 87 % where three seeds pass or fail by chance on two
  tasks alone. A single seed gives no interval.
- **Mean** is that of the scores over seeds, then over tasks, and the **optimality gap** what it lacks to 1. Both see what the
  IQM hides: a task that an encoding is alone to solve or to fail.
- **Separated**: two encodings are separated if their mean scores are further apart than chance would bring them, by a
  permutation test that exchanges their runs within each task, p ≤ {significance.ALPHA:g}, and if their IQMs agree on which is
  the better. The p printed is after Holm's correction over all pairs of encodings in the table, and each with {ANCHOR}: the
  chance of even one false separation in a table is at most {100 * significance.ALPHA:g} %, as long as runs of equal encodings
  spread alike; with unequal spreads and numbers of seeds it can be somewhat more. Not separated does not mean equal.
- **Rank**: rows stand by IQM, then by mean. A rank is 1 + the number of rows above that are separated from the row, but never
  better than the rank of the row above. Where all encodings have a single seed nothing can be tested: ranks then go by the
  printed numbers, and small differences mean nothing. An encoding without a run on some task has no rank.
- **Significance**: *places* in the table are those that remain possible for an encoding, given what is separated.
  *P(better)*, the probability of improvement, is how often a run of it beats a run of the row below on the same task,
  averaged over tasks, a tie counting ½; in brackets its 95 % interval, made as above. It has no width where on every task all
  runs of the one beat all of the other, or none do: more seeds might still part them otherwise.
- **{FLAG}**: on some task the encoding is under {share(st.GATE)} in distribution. It has not learned that task at the lengths
  it was trained on, so its OOD numbers there say little about extrapolation. Nothing is left out for it. The flag goes by the
  mean over seeds; the table *in distribution* also counts the seeds.
- **Reach**: the longest tested length up to which exact match, averaged over seeds, never falls under {st.REACH:g};
  ≥ where that is the longest length tested, 0 where already the shortest fails.
- **Parameters** are those of the encoding alone. **Step × {BASE}** is the time of forward and backward pass at L relative to
  {BASE}'s, measured in turns with it on one task (which, and longer lengths, on an encoding's page), good to some 5 %; where
  that was not done, by the clocks of the runs: medians over seeds, geometric mean over tasks. *Past L*: at the longest length
  measured. {BUSY} marks times taken while the machine did something else, when the process had
  less than {QUIET:.0%} of a core to itself. **Memory × {BASE}** is a step's peak memory, past L too.
- *missing*: no result yet. *failed*: it ended in an error. A *diverged* run (its loss was not finite) is a result: zeros."""
