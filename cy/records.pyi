from collections.abc import Iterator, Sequence
from typing import Any, final, overload

from cy.fetched import Chunk

CREATE_TIME: int
LOG_APPEND_TIME: int

@final
class Record:
    """A record as it was consumed. Key, value and headers are made when they are first asked for, with them what
    a deserializer makes of them: its error comes out of the attribute, not out of ``poll``.

    A record keeps the bytes of the whole fetch in memory; its key and value do not. Can be pickled.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Milliseconds since 1970, -1 for none."""
    timestamp_type: int
    """0: the producer's clock, 1: the broker's (message.timestamp.type=LogAppendTime)."""
    leader_epoch: int
    key: Any
    value: Any
    headers: list[tuple[str, bytes | None]]
    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp: int = -1,
        key: Any = None,
        value: Any = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        *,
        timestamp_type: int = 0,
        leader_epoch: int = -1,
    ) -> None: ...

@final
class RecordsIterator(Iterator[Record]):
    def __next__(self) -> Record: ...
    def __iter__(self) -> RecordsIterator: ...
    def stop(self) -> None:
        """Nothing more comes."""
    def rest(self) -> dict[tuple[str, int], int]:
        """The offsets of the first records that did not come yet, by topic and partition."""

@final
class Records(Sequence[Record]):
    """The records of a poll, partition by partition, in the order of their offsets. Behaves like a list; a record
    is made when it is asked for.
    """

    def __init__(self, chunks: list[Chunk] = ...) -> None: ...
    @property
    def chunks(self) -> list[Chunk]: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> RecordsIterator: ...
    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...
    def by_partition(self) -> dict[tuple[str, int], Records]:
        """The records of each (topic, partition)."""
    def count(self, value: Any) -> int: ...
    def index(self, value: Any, start: int = 0, stop: int = ...) -> int: ...
    def values(self) -> list[Any]:
        """The values alone: cheaper than ``[record.value for record in records]``."""
