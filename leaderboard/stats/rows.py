"""The frame of rows: one row per encoding of a suite, with everything that pages, terminal and web page show."""

from collections.abc import Mapping
from functools import cached_property

import numpy as np
import pandas as pd
from jaxtyping import Float

import tasks
from bench.result import RANKING_CLASSES
from leaderboard.results.columns import COSTS

from . import ranks
from .ranks import means
from .rates import with_choice
from .scores import FUZZ, GATE, curve, length_limit, scored

ABOUT = ("family", "ranking", "source", "year", "title", "link", "lengths")
"""Columns of the frame of runs that describe the encoding; the newest run decides."""
COSTLY = 1.5
"""Time, operations or parameters relative to NoPE above which an encoding that sees content is marked."""
LOCAL = " (local)"
"""Suffix of the name of an encoding whose local runs stand beside published ones."""


class Board:
    """One suite's results: the scored runs of its newest fingerprint, and the frame of rows.

    Arguments:
        runs: frame of runs of one suite.
        costs: encoding × ``COSTS``, relative to NoPE.
    """

    def __init__(self, runs: pd.DataFrame, costs: pd.DataFrame | None = None):
        self.all_runs = kept = newest_runs(runs)
        """All runs, with the columns of ``scored`` and ``chosen``."""
        self.exact = bool((kept["score_is"] != "bits").any())
        """Whether answers count, and not bits."""
        self.left_out = len(runs) - len(kept)
        """How many runs have another fingerprint, or a learning rate that few runs have."""
        self.runs = self.all_runs[self.all_runs["chosen"]]
        self.suite, self.version, self.fingerprint = kept[["suite", "suite_version", "fingerprint"]].iloc[0]
        ranked = [task for task in kept["task"].unique() if is_ranked(task)]
        self.tasks = sorted(ranked or kept["task"].unique(), key=lambda task: (TASKS.get(task, len(TASKS)), task))
        self.encodings = sorted(kept["encoding"].unique())
        self.seeds = sorted(kept["seed"].unique())
        self.scores = self.cube("score")
        """Score of each encoding, block and task, NaN without a run: [R, B, T]."""
        self.rates = sorted(kept["learning_rate"].dropna().unique())
        rates = kept.groupby(["encoding", "seed", "task"], observed=True)["learning_rate"].nunique().unstack()
        whole = (rates[self.tasks] == len(self.rates)).all(axis=1).unstack(fill_value=False)
        whole = whole.reindex(index=self.encodings, columns=self.seeds, fill_value=False)
        self.blocks = np.where(whole, self.scores.mean(2), np.nan)
        """Mean over tasks of each encoding and block, NaN where a task lacks, or one of the rates: [R, B]."""
        self.rows = self.make_rows(costs)

    def cube(self, column: str) -> Float[np.ndarray, "R B T"]:
        table = self.runs.pivot_table(index=["encoding", "seed"], columns="task", values=column, aggfunc="mean", observed=True)
        index = pd.MultiIndex.from_product([self.encodings, self.seeds])
        values = table.reindex(index=index, columns=self.tasks).to_numpy(float)
        return values.reshape(len(self.encodings), len(self.seeds), len(self.tasks))

    def make_rows(self, costs: pd.DataFrame | None) -> pd.DataFrame:
        """One row per encoding, classes in order, best score first, incomplete encodings last."""
        newest = self.all_runs.sort_values("finished").groupby("encoding", observed=True)[[*ABOUT]].last()
        rows = newest.reindex(self.encodings)
        runs = self.all_runs.groupby("encoding", observed=True)
        rows["parameters_low"], rows["parameters_high"] = runs["encoding_parameters"].min(), runs["encoding_parameters"].max()
        longer = self.all_runs.query("longest_seen > train_length")["encoding"]
        rows.loc[rows.index.isin(longer) & (rows["ranking"] == "standard"), "ranking"] = "longer"
        complete = ~np.isnan(self.blocks)
        rows["finished"] = runs["finished"].max()
        rows["blocks"], rows["complete"] = complete.sum(1), complete.any(1)
        rows["missing"] = [", ".join(np.array(self.tasks)[np.isnan(one).all(0)]) for one in self.scores]
        with np.errstate(all="ignore"):
            rows["score"] = np.clip(means(ranks.centred(self.blocks)), 0, 1)
            rows["rate_low"], rows["rate_high"] = self.by_rate.min(axis=1), self.by_rate.max(axis=1)
        for task, values in zip(self.tasks, np.moveaxis(self.scores, 2, 0), strict=True):
            rows[f"score.{task}"] = means(values)
            rows[[f"low.{task}", f"high.{task}"]] = ranks.interval(values)
        for name, column in {"within": "within", "token": "token_score", "nll": "nll_beyond"}.items():
            for task, values in zip(self.tasks, np.moveaxis(self.cube(column), 2, 0), strict=True):
                rows[f"{name}.{task}"] = means(values)
        within = rows[[f"within.{task}" for task in self.tasks]].to_numpy()
        rows["fails_within"] = [", ".join(np.array(self.tasks)[one < GATE - FUZZ]) * self.exact for one in within]
        rows = rows.join(self.limits())
        rows = rows.join(costs if costs is not None else pd.DataFrame(columns=COSTS, dtype=float))
        for cost, sealed in {"step_time": "step_ratio", "flops": "flops_ratio"}.items():
            rows[cost] = rows[cost].astype(float).fillna(runs[sealed].median())
        rows["sees_content"] = runs["sees_content"].any()
        model = 1 / (1 - runs["encoding_parameters"].max() / runs["parameters"].max())
        rows["costly"] = rows["sees_content"] & (rows[["step_time", "flops"]].assign(model=model).max(axis=1) > COSTLY)
        return self.with_ranks(rows.reset_index(names="encoding"))

    @cached_property
    def by_rate(self) -> pd.DataFrame:
        """Encoding × learning rate: mean score over tasks and seeds, NaN where a task lacks; empty if there is one rate."""
        swept = self.all_runs if len(self.rates) > 1 else self.all_runs[:0]
        table = swept.pivot_table(index=["encoding", "learning_rate"], columns="task", values="score", observed=True)
        overall = table.reindex(columns=self.tasks).mean(axis=1, skipna=False)
        return overall.unstack().reindex(self.encodings)

    def limits(self) -> pd.DataFrame:
        """Length limit of each encoding and task, with its mark."""
        found: dict[str, dict[str, object]] = {}
        runs = self.runs[["encoding", "task", "length", "train_length", "chance", "exact", "status"]]  # all columns take long
        for (encoding, task), group in runs.groupby(["encoding", "task"], observed=True):
            at, values = curve(group)
            limit, mark = length_limit(at, values.mean(0)) if self.exact else (np.nan, "")
            found.setdefault(encoding, {}).update({f"limit.{task}": limit, f"limit_mark.{task}": mark})
        return pd.DataFrame.from_dict(found, orient="index")

    def with_ranks(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Rows in the order of the board, with intervals and ranks; the classes have a ranking each."""
        self.ps = np.full((len(rows), len(rows)), np.nan)
        columns = ("low", "high", "rank", "rank_low", "rank_high", "p_first", "weighted_low", "weighted_high")
        rows = rows.assign(**dict.fromkeys(columns, np.nan))
        for kind in rows["ranking"].unique():
            places = np.flatnonzero((rows["ranking"] == kind) & rows["complete"])
            if not len(places):
                continue
            blocks = self.blocks[places]
            scores = rows["score"].to_numpy()[places]
            rows.loc[places, ["low", "high"]] = ranks.interval(blocks, scores)
            ps = self.ps[np.ix_(places, places)] = ranks.pair_ps(blocks)
            rows.loc[places, "rank"] = pd.Series(-scores.round(3)).rank(method="min").to_numpy()
            tested = (~np.isnan(blocks)).sum(1) > 1
            intervals = ranks.rank_intervals(scores, ps).astype(float)
            rows.loc[places, ["rank_low", "rank_high"]] = np.where(tested[:, None], intervals, np.nan)
            by_task = [ranks.centred(one) for one in np.moveaxis(self.scores[places], 2, 0)]
            first, weighted = ranks.under_random_weights(np.stack(by_task, 2))
            rows.loc[places, "p_first"] = first
            rows.loc[places, ["weighted_low", "weighted_high"]] = weighted
        kinds = {kind: n for n, kind in enumerate(RANKING_CLASSES)}
        order = np.lexsort([rows["encoding"], -rows["score"].fillna(-1).round(3), rows["ranking"].map(kinds).fillna(9)])
        self.order = order
        self.ps = self.ps[np.ix_(order, order)]
        self.difference, self.half_width = (one[np.ix_(order, order)] for one in ranks.differences(self.blocks))
        difference, half = ranks.differences(self.blocks, 0.9)
        self.equal = (np.abs(difference) + half <= ranks.EQUAL)[np.ix_(order, order)]
        return rows.iloc[order].reset_index(drop=True)


def newest_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs of a suite's newest fingerprint with columns of ``scored`` and ``chosen``, without rates that few of them have."""
    newest = runs.sort_values(["suite_version", "finished"]).iloc[-1]
    runs = runs[runs["fingerprint"] == newest["fingerprint"]]
    having = runs["learning_rate"].value_counts()
    few = having.index[having < having.max() / 2]
    return with_choice(scored(runs[~runs["learning_rate"].isin(few)].reset_index(drop=True)))


def is_ranked(task: str) -> bool:
    """Whether boards rank by a task: those that are built in, but for some."""
    known = tasks.catalogue().get(task)
    return known is not None and known.ranked


TASKS: Mapping[str, int] = {name: n for n, name in enumerate(("copying", "addition", "parity", "key_retrieval", "sorting"))}
