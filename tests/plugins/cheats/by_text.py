"""Data in the source, and text that looks like other text; the rules for source refuse it. The test replaces `{…}`."""

from cheat_base import Cheat


class HoldsNumbers(Cheat):
    TABLE = ["{1001 numbers}"]


class HoldsANumber(Cheat):
    TABLE = "{a number of 30 digits}"


class HoldsText(Cheat):
    TABLE = "{6001 letters}"


class HoldsBytes(Cheat):
    TABLE = b"weights"


class HidesCharacters(Cheat):
    TABLE = "{variation selector}"


class HidesBlanks(Cheat):
    TABLE = "{Hangul filler}"


class HidesInALongLine(Cheat):
    TABLE = "{200 blanks}"


class UsesAnotherAlphabet(Cheat):
    def prepare(self, at):
        аt = at.layer + 1  # noqa: F841 (a Cyrillic letter)
        return at.layer


class EncodesInLetters(Cheat):
    TABLE = "жизнь"
