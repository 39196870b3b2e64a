from collections.abc import Iterator, Sequence
from typing import Any, final, overload

from cy.consume.fetched import Chunk

CREATE_TIME: int
LOG_APPEND_TIME: int

@final
class Record:
    """A consumed record. Key, value and headers are decoded and deserialized on first access, so the attribute raises a
    deserializer's error, not ``poll``.

    A record keeps the bytes of the whole fetch in memory; its key and value alone do not. Can be pickled.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    """In milliseconds since 1970; -1 if there is none."""
    timestamp_type: int
    """0 for the producer's clock, 1 for the broker's (message.timestamp.type=LogAppendTime)."""
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
    given: int
    """The number of records returned so far."""
    def back_to(self, given: int) -> None:
        """Makes the next step return the last record again, if more than ``given`` were returned before."""
    def stop(self) -> None:
        """Ends the iteration."""
    def rest(self) -> dict[tuple[str, int], int]:
        """Returns the offset of the first record in each partition that the iteration has not reached."""

@final
class Records(Sequence[Record]):
    """The records of a poll, partition by partition, in the order of their offsets. It behaves like a list, but makes
    a record only on access.
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
        """Returns the records of each (topic, partition)."""
    def count(self, value: Any) -> int: ...
    def index(self, value: Any, start: int = 0, stop: int = ...) -> int: ...
    def values(self) -> list[Any]:
        """Returns only the values. This is cheaper than ``[record.value for record in records]``."""
