"""Translates a topic pattern to RE2/J, in which the group's coordinator matches (KIP-848)."""

from __future__ import annotations

import re
from typing import Final

SAME_FLAGS: Final = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s"}
"""Flags that RE2/J has as well, with their letters at the start of an expression."""
WITHOUT_EFFECT: Final = re.UNICODE | re.ASCII
"""Flags without effect, because topic names have only ASCII letters and digits."""
INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")
HINT: Final = (
    "the group's coordinator matches by RE2/J, which has no look-around and no back-references: write the "
    "pattern without them, or set group.protocol=classic to match it in the client"
)


def for_broker(pattern: re.Pattern[str], hides_internal: bool) -> str | None:
    """Returns the expression for the broker, or None if only the client can match it correctly. Only the client can if
    the pattern has flags that RE2/J lacks, or matches internal topics that the client hides.
    """
    if pattern.flags & ~sum(SAME_FLAGS, WITHOUT_EFFECT) or not pattern.pattern:
        return None
    if hides_internal and any(map(pattern.fullmatch, INTERNAL_TOPICS)):
        return None
    flags = "".join(sign for flag, sign in SAME_FLAGS.items() if pattern.flags & flag)
    text = re.sub(r"\\(.)", lambda found: r"\z" if found[1] == "Z" else found[0], pattern.pattern, flags=re.DOTALL)
    return f"(?{flags}){text}" if flags else text
