from collections.abc import Callable, Generator
from typing import Any, final

from cy.produce.phase import Phase
from cy.produce.record_metadata import RecordMetadata

@final
class ProducerBatch:
    """A batch of records for one partition. It grows, is sealed and sent, and is completed or failed once."""

    topic: str
    partition: int
    count: int
    charged: int
    """The bytes of buffer.memory that it takes."""
    created: float
    records: bytes | None
    """The v2 batch between ``seal`` and the end."""
    producer_id: int
    producer_epoch: int
    base_sequence: int
    phase: Phase
    tell: Callable[[], object] | None
    """Reports the outcome in the batch's turn. None: the outcome is unknown, or reported already."""
    unprovable: bool
    """True if nothing can prove any longer that it was written, because the batch that could have proved it was given
    up.
    """
    attempts: int
    retry_at: float
    maybe_written: bool
    """True if it was sent and may have been appended."""
    last_error: Any
    asked: bool
    """Notes that the application asks for the outcome, or that a close will report it."""
    done: bool
    base_offset: int
    log_append_time: int
    error: Any

    @property
    def size(self) -> int:
        """The bytes on the wire."""
    @property
    def plain_size(self) -> int:
        """The bytes before compression."""
    @property
    def sealed(self) -> bool: ...
    @property
    def has_sequence(self) -> bool: ...
    @property
    def is_decided(self) -> bool:
        """True if its outcome is known: reported already, or to be reported in its turn."""
    @property
    def is_watched(self) -> bool:
        """True if some of its records have callbacks."""
    @property
    def is_heard(self) -> bool:
        """True if the outcome reaches a callback, a caller or a close."""
    @property
    def leaves(self) -> list[ProducerBatch]:
        """The batches that have its records: itself, or if it was split, its parts and theirs."""
    def append(
        self, timestamp: int, key: bytes | None, value: bytes | None, headers: Any = None
    ) -> DeliveryReport:
        """Adds a record, however large."""
    def seal(self, codec: int = 0, level: int | None = None, transactional: bool = False) -> None:
        """Compresses the records and writes the header. The batch takes no further records. A second call does
        nothing.
        """
    def assign(self, producer_id: int = -1, epoch: int = -1, sequence: int = -1) -> None:
        """Writes producer id, epoch, sequence and CRC. If the batch was sent before, writes them into a copy."""
    def clear_sequence(self) -> None:
        """Removes the sequence. The batch was not appended and will get another one."""
    def reserve_sequence(self, sequence: int) -> None:
        """Sets the sequence that ``assign`` will write."""
    def split(self, limit: int) -> list[ProducerBatch]:
        """Splits the records into at least two batches, each of at most ``limit`` bytes or with a single record. This
        batch then represents them.
        """
    def complete(self, base_offset: int, log_append_time: int = -1) -> None:
        """Ends the batch as appended at ``base_offset`` (-1: unknown)."""
    def fail(self, error: Any, record_errors: Any = None) -> None:
        """Ends the batch as failed. ``record_errors`` has errors by the records' indexes (KIP-467)."""
    def run_callbacks(self, on_error: Callable[[Any], object]) -> None:
        """Calls the records' callbacks. If one raises, calls ``on_error(callback)`` in its ``except`` block."""
    def add_waiter(self, waiter: Callable[[], object]) -> None:
        """Calls ``waiter()`` when the batch is done, or at once if it is done already."""
    def wait(self, timeout: float | None = None) -> bool:
        """Waits. Returns True if the batch was done within ``timeout`` seconds."""

def begin(topic: str, partition: int, *, capacity: int = 16384, created: float = 0) -> ProducerBatch:
    """Creates a batch."""

def not_within(timeout: float, batch: ProducerBatch) -> str:
    """Returns the message for a batch that was not done within ``timeout`` seconds."""

def how_to_wait(them: str) -> str:
    """Returns advice: what to do with one report, or many, in a thread with or without an event loop."""

def set_wait_async(function: Callable[[Any], Generator[Any, Any, Any]]) -> None:
    """Makes ``await report`` iterate over ``function(report)``."""

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
