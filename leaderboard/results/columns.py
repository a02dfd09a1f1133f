"""Columns of the frame of runs and of the tidy table, each with its meaning and its place in ``result.json``."""

from typing import NamedTuple

from bench.result import RANKING_CLASSES, SOURCE_KINDS


class Column(NamedTuple):
    """A column of the export."""

    kind: type
    meaning: str
    key: str = ""
    """Path of keys in ``result.json``, or in one of its ``scores``; empty: computed."""


RUN = {
    "suite": Column(str, "name of the suite", "suite"),
    "suite_version": Column(int, "version of the suite", "suite_version"),
    "fingerprint": Column(str, "hash of all that can change a number; others do not compare", "fingerprint"),
    "task": Column(str, "name of the task", "task"),
    "variant": Column(str, "variant of the task", "variant"),
    "train_length": Column(int, "L, in the task's units", "train_length"),
    "longest_seen": Column(int, "longest length seen in training, including any extra stage", "longest_seen"),
    "trained_as": Column(str, "encoding whose training the run shares; empty: its own", "trained_as"),
    "weights": Column(str, "file of the tested weights, below the results folder; empty if not kept", "weights"),
    "sealed": Column(bool, "whether the code ran in a sandbox, trained and judged by another process", "sealed"),
    "sees_content": Column(bool, "whether its code uses tokens or hidden states; or positions only"),
    "step_ratio": Column(float, "time of a step of a sealed run that sees content, relative to nope; or null", "step_ratio"),
    "flops_ratio": Column(float, "operations of its forward pass, relative to nope; or null", "flops_ratio"),
    "encoding": Column(str, "name of the encoding", "encoding.name"),
    "family": Column(str, "family of the encoding", "encoding.family"),
    "ranking": Column(str, f"declared ranking class: {', '.join(RANKING_CLASSES)}", "encoding.ranking"),
    "year": Column(int, "year of its paper", "encoding.year"),
    "title": Column(str, "title of its paper", "encoding.title"),
    "link": Column(str, "link to its paper", "encoding.link"),
    "source": Column(str, f"what it was compared with: {', '.join(SOURCE_KINDS)}; or empty", "encoding.source"),
    "lengths": Column(str, "its settings that are lengths in tokens, with the rule of each", "encoding.lengths"),
    "stage_share": Column(float, "steps of an extra stage as a share of the recipe's; or null", "encoding.stage_share"),
    "settings": Column(str, "settings of the encoding, as JSON"),
    "source_sha256": Column(str, "hash of the encoding's source", "encoding.source_sha256"),
    "seed": Column(int, "seed of initialisation and training data", "seed"),
    "learning_rate": Column(float, "peak learning rate; null in suites that do not sweep it", "learning_rate"),
    "score_is": Column(str, "what scores use: exact (match) or bits (loss)", "score_is"),
    "symbols": Column(int, "size of the vocabulary", "symbols"),
    "status": Column(str, "done or diverged; a diverged run scores zero", "status"),
    "steps": Column(int, "training steps taken", "steps"),
    "final_loss": Column(float, "last logged training loss"),
    "parameters": Column(int, "trainable parameters of the model, encoding included", "parameters.model"),
    "encoding_parameters": Column(int, "trainable parameters of the encoding", "parameters.encoding"),
    "step_ms": Column(float, "median time of a training step, in milliseconds", "timings.step_ms"),
    "train_s": Column(float, "training time, in seconds", "timings.train_s"),
    "evaluate_s": Column(float, "evaluation time, in seconds", "timings.evaluate_s"),
    "total_s": Column(float, "time of the whole run, in seconds, interruptions excluded", "timings.total_s"),
    "cpu_share": Column(float, "CPU time over wall time in training; under 0.9, times are unreliable", "timings.cpu_share"),
    "data_hash": Column(str, "hash of all test examples", "data_hash"),
    "device": Column(str, "device of the run", "device"),
    "threads": Column(int, "number of CPU threads", "threads"),
    "started": Column(str, "start of the run, ISO 8601, UTC", "started"),
    "finished": Column(str, "end of the run, ISO 8601, UTC", "finished"),
    "commit": Column(str, "git commit of the checkout; -dirty if its code was changed", "commit"),
}
"""Scalar columns of the frame of runs, which also has ``versions`` (a dictionary), ``origin`` and the columns ``BY_LENGTH``."""

BY_LENGTH = {
    "length": Column(int, "test length l, in the task's units", "length"),
    "exact": Column(float, "exact match: share of examples with the whole answer and <eos> correct", "exact"),
    "token": Column(float, "share of correct answer tokens, <eos> included", "token"),
    "nll": Column(float, "mean negative log-likelihood per answer token, in nats; null if not finite or unknown", "nll"),
    "first_wrong": Column(str, "examples by the tenth of the answer with the first wrong token, as JSON", "first_wrong"),
    "token_chance": Column(float, "token accuracy of the best guess that knows only the length; or null", "token_chance"),
    "count": Column(int, "number of test examples", "count"),
    "tokens": Column(int, "number of answer tokens", "tokens"),
    "chance": Column(float, "exact match expected of guessing", "chance"),
    "nll_other": Column(float, "as nll, with the text before the last L characters from elsewhere; or null", "other.nll"),
    "needle": Column(float, "exact match on a number that stands at the beginning of the text; or null", "needle.exact"),
}
"""Columns with one number per test length; in the frame of runs each cell is an array, ascending by length."""

TIDY_ONLY = {
    "relative_length": Column(float, "l / L"),
    "in_distribution": Column(bool, "l ≤ L"),
    "chosen": Column(bool, "whether the run has the learning rate that counts: see leaderboard.stats.rates"),
    "exact_score": Column(float, "(exact − chance) / (1 − chance)"),
    "token_score": Column(float, "(token − token_chance) / (1 − token_chance); null where unknown"),
    "weight": Column(float, "weight of the length in a score: see leaderboard.stats.scores"),
}
"""Columns that only the tidy table has."""

COSTS = ["step_time", "flops", "memory"]
"""Columns with costs relative to NoPE, in the frame of rows."""

VERSION = "version_"
"""Prefix of the tidy table's columns with versions of packages, one for each package that any run lists."""

TIDY = RUN | BY_LENGTH | TIDY_ONLY
"""Columns of the tidy table, in order, without those of versions."""
