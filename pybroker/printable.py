"""Makes texts from clients and peers safe for a single line of a log or an answer."""

from __future__ import annotations


def printable(text: str) -> str:
    """Returns the text with its line breaks and control characters escaped as in Python's source."""
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
