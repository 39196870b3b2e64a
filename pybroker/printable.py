"""What others have chosen, as it may stand in a line: of a log, or of an answer."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text; line breaks and control characters are written as in Python's source."""
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
