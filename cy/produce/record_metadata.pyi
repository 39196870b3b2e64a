from collections.abc import Iterator
from typing import Any, final

@final
class RecordMetadata:
    """Where a record is; -1 where the broker did not say."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Milliseconds; the broker's where the topic has LogAppendTime."""

    def __init__(self, topic: str, partition: int, offset: int, timestamp: int) -> None: ...
    def __iter__(self) -> Iterator[Any]: ...
