"""Makes texts that others have chosen safe for one line of a log or an answer."""

from __future__ import annotations


def printable(text: str) -> str:
    """Returns the text with line breaks and control characters escaped as in Python's source."""
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
