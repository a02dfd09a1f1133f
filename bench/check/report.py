"""Findings of checks as text, JSON and markdown."""

import re
from collections.abc import Iterator
from typing import ClassVar, Literal

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

    kind: ClassVar[str] = "Check"
    """Heading of its page."""
    format: Literal[1] = 1
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

    @property
    def passed(self) -> bool:
        return all(finding.status in ("passed", "undecided") for finding in self.findings)

    def summary(self) -> str:
        names = {status: [f.check for f in self.findings if f.status == status] for status in MARK}
        others = [f"{status}: {', '.join(names[status])}" for status in ("failed", "undecided", "not run") if names[status]]
        passed = f"{len(names['passed'])} of {len(self.findings)} checks passed in {self.seconds:.0f} s"
        return "; ".join([f"{self.encoding}: {passed}", *others])

    def markdown(self) -> str:
        """A page with a table. Text of the plugin is escaped and cannot break out of its cell."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        lines = [
            f"# {self.kind} of {escape_cell(self.encoding)}",
            "",
            f"{escape_cell(self.summary())}. Ranking class {escape_cell(self.ranking)}, source "
            f"`{escape_cell(self.source_sha256)}`.",
            f"{escape_cell(versions)}; {escape_cell(self.device)}; {escape_cell(self.finished)}.",
            "",
            "| check | result | expected | found | what to do | s |",
            "|---|---|---|---|---|---:|",
        ]
        for f in self.findings:
            cells = [f.check, f.status, f.expected, f.found, f.advice, f"{f.seconds:.1f}"]
            lines.append(f"| {' | '.join(map(escape_cell, cells))} |")
        return "\n".join(lines) + "\n"


def escape_cell(text: str) -> str:
    """Escape text so that markdown shows it literally, on one line."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    escaped = re.sub(r"([\\`*_\[\]|#~])", r"\\\1", " ".join(plain.split()))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
