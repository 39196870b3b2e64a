"""Which topic names are valid."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from pyclient.protocol.errors import InvalidTopicException

LONGEST: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic(topic: object) -> str:
    """Returns the name. Raises TypeError if it is not a str, InvalidTopicException if brokers do not accept it."""
    if not isinstance(topic, str):
        if topic is None:
            raise InvalidTopicException("topic is None: give a name")
        raise TypeError(f"topic is {type(topic).__name__}, not str")
    if not topic:
        raise InvalidTopicException("topic is '': give a name")
    if len(topic) > LONGEST:
        raise InvalidTopicException(f"topic {topic[:20]!r}… has {len(topic)} characters; at most {LONGEST} are allowed")
    if topic in (".", "..") or not _LEGAL.fullmatch(topic):
        raise InvalidTopicException(
            f"topic {topic!r} is invalid: use letters, digits, '.', '_' and '-' only, and not '.' or '..' alone"
        )
    return topic


def check_topics(topics: Iterable[object]) -> list[str]:
    """Checks all names like ``check_topic``; takes a single name as a list of one."""
    if not isinstance(topics, Iterable):
        raise TypeError(f"topics are {type(topics).__name__}, not a list of names")
    return [check_topic(each) for each in ([topics] if isinstance(topics, (str, bytes)) else topics)]
