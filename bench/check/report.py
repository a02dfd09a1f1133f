"""Findings of checks as records and as text."""

from collections.abc import Iterator
from typing import Literal

from bench.result import Record

MARK = {"passed": "ok  ", "failed": "FAIL", "undecided": "  ? ", "not run": "  - "}


class CheckOutcome(Record):
    """The outcome of one check."""

    check: str
    status: Literal["passed", "failed", "undecided", "not run"]
    expected: str
    found: str
    advice: str
    """What to do if it failed, else empty."""
    seconds: float

    def lines(self) -> Iterator[str]:
        """Text of the finding: four lines if the check failed, else one."""
        mark = f"{MARK[self.status]}  {self.check:<13}"
        if self.status != "failed":
            yield mark + self.found
            return
        yield mark.rstrip()
        for label, text in (("expected", self.expected), ("found", self.found), ("to do", self.advice)):
            if text:
                yield f"{'':6}{label:<10}{text}"


class Report(Record):
    """Findings of all checks of one encoding."""

    format: Literal[2] = 2
    encoding: str
    ranking: str
    source_sha256: str
    """Hash of the source that was checked, as in results."""
    versions: dict[str, str]
    device: str
    finished: str
    """ISO 8601, UTC."""
    seconds: float
    findings: list[CheckOutcome]
    unusual: list[str] = []
    """What a maintainer should look at in the source, a line each."""

    @property
    def passed(self) -> bool:
        return all(finding.status in ("passed", "undecided") for finding in self.findings)

    def summary(self) -> str:
        names = {status: [f.check for f in self.findings if f.status == status] for status in MARK}
        others = [f"{status}: {', '.join(names[status])}" for status in ("failed", "undecided", "not run") if names[status]]
        passed = f"{len(names['passed'])} of {len(self.findings)} checks passed in {self.seconds:.0f} s"
        return "; ".join([f"{self.encoding}: {passed}", *others])
