"""Keys in a file that Kafka does not have: which ones are typing errors, and which belong to other programs.

Kafka ignores all of them. Here a typing error stops the start. A key counts as one if its first word is one of Kafka's
(``num.partition``), or similar to one (``lisners``). A key with another first word (``confluent.license``) is foreign:
it belongs to a vendor or a plug-in, and is ignored with a warning. The keys in ``OF_OTHERS`` are foreign too, although
their first words are like Kafka's.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

NEAR = 0.75
"""How similar a first word must be to one of Kafka's to count as mistyped: difflib's ratio."""
OF_OTHERS = re.compile(
    r"logs\.dir|broker\.interceptor\.class|log\.deletion\..+|kafka\.rest\..+|automq\..+"
    r"|auto\.include\.jmx\.reporter|kafka\.csv\.metrics\..+|replica\.lag\.max\.messages"
)
"""Matches keys in files of vendors and of older versions of Kafka."""


def is_foreign(name: str, known: Iterable[str]) -> bool:
    """Returns whether an unknown key of a file belongs to other software."""
    if OF_OTHERS.fullmatch(name):
        return True
    words = {each.partition(".")[0] for each in known}
    return not difflib.get_close_matches(name.partition(".")[0], words, n=1, cutoff=NEAR)
