"""What checks have found, and its three forms: text, JSON and markdown."""

import re
from collections.abc import Iterator
from typing import ClassVar, Literal

from ..results import Record

MARK = {"passed": "ok  ", "failed": "FAIL", "not run": "  - "}


class Finding(Record):
    """One check."""

    check: str
    status: Literal["passed", "failed", "not run"]
    expected: str
    found: str
    advice: str
    """What to do where it did not pass, else empty."""
    seconds: float

    def lines(self) -> Iterator[str]:
        """As text: one line if it passed, four if not."""
        mark = f"{MARK[self.status]}  {self.check:<13}"
        if self.status == "passed":
            yield mark + self.found
            return
        yield mark.rstrip()
        for label, text in (("expected", self.expected), ("found", self.found), ("to do", self.advice)):
            if text:
                yield f"{'':6}{label:<10}{text}"


class Report(Record):
    """All checks of one encoding."""

    kind: ClassVar[str] = "Check"
    """What its page is headed as."""
    format: Literal[1] = 1
    encoding: str
    ranking: str
    source_sha256: str
    """Of the source that was checked, as results name it."""
    versions: dict[str, str]
    device: str
    finished: str
    """ISO 8601, UTC."""
    seconds: float
    findings: list[Finding]

    @property
    def passed(self) -> bool:
        return all(finding.status == "passed" for finding in self.findings)

    def summary(self) -> str:
        good = sum(finding.status == "passed" for finding in self.findings)
        return f"{self.encoding}: {good} of {len(self.findings)} checks passed in {self.seconds:.0f} s"

    def markdown(self) -> str:
        """A page with a table; nothing that the plugin says of itself can break out of its cell."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        rows = [
            f"| {cell(f.check)} | {f.status} | {cell(f.expected)} | {cell(f.found)} | {cell(f.advice)} | {f.seconds:.1f} |"
            for f in self.findings
        ]
        head = [
            f"# {self.kind} of {cell(self.encoding)}",
            "",
            f"{cell(self.summary())}. Ranking class {cell(self.ranking)}, source `{cell(self.source_sha256)}`.",
            f"{cell(versions)}; {cell(self.device)}; {cell(self.finished)}.",
            "",
            "| check | result | expected | found | what to do | s |",
            "|---|---|---|---|---|---:|",
        ]
        return "\n".join([*head, *rows]) + "\n"


def cell(text: str) -> str:
    """Text as markdown that means the text and nothing else."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    escaped = re.sub(r"([\\`*_\[\]|#~])", r"\\\1", " ".join(plain.split()))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
