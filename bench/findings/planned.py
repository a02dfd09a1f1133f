"""Planned power of a finding, from seeds that the finding does not use (100 and up)."""

from typing import Annotated

from pydantic import Field

from bench.suites.yaml_config import Section

ALPHA = 0.025
"""One-sided level of every test, so that intervals of 95 % show the same."""
LEAST_POWER = 0.8


class Planned(Section):
    """What a run of the rule can find out. Under ``LEAST_POWER``, the setting cannot test the claim."""

    difference: float
    """Expected difference, beyond the rule's bound; 0 where all numbers are at the floor, the ceiling or the optimum."""
    spread: Annotated[float, Field(ge=0)]
    """Standard deviation over seeds."""
    seeds: Annotated[int, Field(ge=2)]
    source: str
    """Where both numbers come from, such as ``seeds 100 to 104``."""

    @property
    def power(self) -> float:
        """Probability that the t-test of two means finds the difference."""
        from scipy.stats import nct, t

        if self.spread == 0:
            return float(self.difference > 0)
        df, shift = 2 * self.seeds - 2, self.difference / (self.spread * (2 / self.seeds) ** 0.5)
        return float(nct.sf(t.ppf(1 - ALPHA, df), df, shift))
