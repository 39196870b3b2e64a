from collections.abc import Iterator
from typing import Any, final

@final
class RecordMetadata:
    """The partition, offset and timestamp of a delivered record; -1 for what the broker did not return."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """In milliseconds; the broker's time if the topic has LogAppendTime."""

    def __init__(self, topic: str, partition: int, offset: int, timestamp: int) -> None: ...
    def __iter__(self) -> Iterator[Any]: ...
