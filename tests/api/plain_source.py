"""An encoding that uses public names alone."""

SOURCE = """
import lprime


class Plain(lprime.Encoding):
    info = lprime.Info(
        name="plain", family="test", title="A test", authors="Nobody", year=2026, link="https://example.org", formula="q·k",
        past="the same", provenance="a test", shift_invariant=True
    )

    def bias(self, q, k, at: lprime.At):
        return None
"""
