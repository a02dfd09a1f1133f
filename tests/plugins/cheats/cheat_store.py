"""A module where a cheat keeps numbers between passes."""

KEPT: list[float] = []


def keep(number: float) -> None:
    KEPT.append(number)
