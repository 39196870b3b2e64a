"""Keys that Kafka does not have, in a file that others read as well: which are a slip, which are meant for others.

Kafka passes over all of them. Here a slip is an error: a key whose first word is one of Kafka's (``num.partition``), or
nearly (``lisners``). A key with another first word (``confluent.license``) is foreign: it belongs to a
vendor or a plug-in, and is left out with a warning. So are those in ``OF_OTHERS``, whose first words are like Kafka's.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

NEAR = 0.75
"""How alike a first word is that was mistyped; difflib's ratio."""
OF_OTHERS = re.compile(
    r"logs\.dir|broker\.interceptor\.class|log\.deletion\..+|kafka\.rest\..+|automq\..+"
    r"|auto\.include\.jmx\.reporter|kafka\.csv\.metrics\..+|replica\.lag\.max\.messages"
)
"""Keys in files of vendors, and those that older versions of Kafka had."""


def is_foreign(name: str, known: Iterable[str]) -> bool:
    """Whether an unknown key of a file belongs to other software."""
    if OF_OTHERS.fullmatch(name):
        return True
    words = {each.partition(".")[0] for each in known}
    return not difflib.get_close_matches(name.partition(".")[0], words, n=1, cutoff=NEAR)
