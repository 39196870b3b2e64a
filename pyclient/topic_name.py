"""What names a topic may have."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from pyclient.protocol.errors import InvalidTopicException

LONGEST: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic(topic: object) -> str:
    """The name. Raises TypeError for what is no str, InvalidTopicException for a name that no broker takes."""
    if not isinstance(topic, str):
        if topic is None:
            raise InvalidTopicException("topic is None: a name is needed")
        raise TypeError(f"topic is {type(topic).__name__}, not str")
    if not topic:
        raise InvalidTopicException("topic is '': a name is needed")
    if len(topic) > LONGEST:
        raise InvalidTopicException(f"topic {topic[:20]!r}… has {len(topic)} characters: {LONGEST} at most")
    if topic in (".", "..") or not _LEGAL.fullmatch(topic):
        raise InvalidTopicException(f"topic {topic!r}: letters, digits, '.', '_' and '-' only, and not '.' or '..'")
    return topic


def check_topics(topics: Iterable[object]) -> list[str]:
    """All of them, as ``check_topic``; one name alone counts as a list of one."""
    return [check_topic(each) for each in ([topics] if isinstance(topics, (str, bytes)) else topics)]
