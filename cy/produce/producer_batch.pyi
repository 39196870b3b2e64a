from collections.abc import Callable, Generator
from typing import Any, final

from cy.produce.phase import Phase
from cy.produce.record_metadata import RecordMetadata

@final
class ProducerBatch:
    """A batch of records on its way to one partition. Grows, is sealed, sent, and done once."""

    topic: str
    partition: int
    count: int
    charged: int
    """Bytes that it takes of buffer.memory."""
    created: float
    records: bytes | None
    """The v2 batch between ``seal`` and the end."""
    producer_id: int
    producer_epoch: int
    base_sequence: int
    phase: Phase
    tell: Callable[[], object] | None
    """Tells those who wait what became of it: known, and not told yet, as it is not its turn."""
    unprovable: bool
    """If it was written, nobody will ever know: the one behind it that could have proved it was given up."""
    attempts: int
    retry_at: float
    maybe_written: bool
    """Sent, and no answer said that it was not appended."""
    last_error: Any
    asked: bool
    """The application asks what becomes of it, or a close will say so."""
    done: bool
    base_offset: int
    log_append_time: int
    error: Any

    @property
    def size(self) -> int:
        """Bytes on the wire."""
    @property
    def plain_size(self) -> int:
        """Bytes before compression."""
    @property
    def sealed(self) -> bool: ...
    @property
    def has_sequence(self) -> bool: ...
    @property
    def is_decided(self) -> bool:
        """What became of it is told, or will be in its turn."""
    @property
    def is_watched(self) -> bool:
        """Callbacks hang on its records."""
    @property
    def is_heard(self) -> bool:
        """Somebody hears what becomes of it: a callback, a caller who asks, a close."""
    def append(
        self, timestamp: int, key: bytes | None, value: bytes | None, headers: Any = None
    ) -> DeliveryReport:
        """Adds a record, however large."""
    def seal(self, codec: int = 0, level: int | None = None, transactional: bool = False) -> None:
        """No record comes any more: compresses, writes the header. Again: does nothing."""
    def assign(self, producer_id: int = -1, epoch: int = -1, sequence: int = -1) -> None:
        """Writes who sends it, and the CRC. After a first attempt into a copy."""
    def clear_sequence(self) -> None:
        """It was not appended, and will get another sequence."""
    def reserve_sequence(self, sequence: int) -> None:
        """The sequence that ``assign`` will write."""
    def split(self, limit: int) -> list[ProducerBatch]:
        """Its records in batches of at most ``limit`` bytes (or one record), at least two, which it stands
        for from now on.
        """
    def complete(self, base_offset: int, log_append_time: int = -1) -> None:
        """It was appended at ``base_offset`` (-1: unknown)."""
    def fail(self, error: Any, record_errors: Any = None) -> None:
        """It will not be appended; ``record_errors``: index to error (KIP-467)."""
    def run_callbacks(self, on_error: Callable[[Any], object]) -> None:
        """Calls the callbacks of the records; ``on_error(callback)`` in the ``except`` of one that raises."""
    def add_waiter(self, waiter: Callable[[], object]) -> None:
        """Calls ``waiter()`` once the batch is done; at once if it is."""
    def wait(self, timeout: float | None = None) -> bool:
        """Whether it was done within ``timeout`` seconds."""

def begin(topic: str, partition: int, *, capacity: int = 16384, created: float = 0) -> ProducerBatch:
    """A new batch."""

def not_within(timeout: float, batch: ProducerBatch) -> str:
    """What to say of a batch that was not done within ``timeout`` seconds."""

def how_to_wait(them: str) -> str:
    """What to do about a report, or many, in a thread with a loop or without."""

def set_wait_async(function: Callable[[Any], Generator[Any, Any, Any]]) -> None:
    """What ``await report`` iterates: ``function(report)``."""

@final
class DeliveryReport:
    """The result of one record: a lightweight view of its batch."""

    @property
    def done(self) -> bool: ...
    @property
    def error(self) -> Any:
        """The KafkaError, or None if there is none (yet)."""
    @property
    def metadata(self) -> RecordMetadata | None:
        """The record's partition and offset; None until it is known, and after a failure."""
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Waits up to ``timeout`` seconds and returns the metadata. Raises the KafkaError, or TimeoutError."""
    def outcome(self) -> RecordMetadata:
        """Returns the metadata of a finished report, or raises its error."""
    def add_done_callback(self, function: Callable[[], object]) -> None:
        """Calls ``function()`` on the sender's thread when the report is done, or at once if it is done already."""
    def __await__(self) -> Generator[Any, Any, RecordMetadata]: ...
