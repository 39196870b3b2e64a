from collections.abc import Callable, Sequence
from typing import Any

from cy.produce.arrow_column import HeaderColumn
from cy.produce.deliveries import Deliveries
from cy.produce.producer_batch import DeliveryReport
from cy.produce.record_metadata import RecordMetadata
from cy.produce.shared_queues import SharedQueues

def milliseconds(timestamp: int | None) -> int:
    """Returns a record's timestamp in milliseconds, the current time for None. Raises TypeError, ValueError."""

class RecordQueues(SharedQueues):
    """Puts records into batches; see the module. Thread-safe under the GIL."""

    direct: bool

    def __init__(
        self,
        *,
        batch_size: int = 16384,
        buffer_memory: int = 33554432,
        max_request_size: int = 1048576,
        round_robin: bool = False,
        ignore_keys: bool = False,
        adaptive: bool = True,
        seed: int = 1,
        clock: Callable[[], float] = ...,
    ) -> None: ...
    def send(
        self,
        topic: str,
        value: Any = ...,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Any = None,
        on_delivery: Callable[[RecordMetadata | None, Any], object] | None = None,
    ) -> Any:
        """Sends a record. Waits only for the topic's metadata and for memory, up to max.block.ms.

        Returns the record's report. ``timestamp`` is in milliseconds, the current time by default. ``headers`` are
        pairs of a name and bytes. Raises BufferExhausted, RecordTooLarge, KafkaError, and TypeError for anything but
        bytes, or for a record without value and key, unless value=None is given.
        """
    def try_send(
        self, topic: str, value: Any, key: Any, partition: int | None, timestamp: int | None, headers: Any, on_delivery: Any
    ) -> DeliveryReport | None:
        """Sends a record without waiting. Returns None if that would need a wait, or if the producer is closed."""
    def add_many(
        self,
        topic: str,
        values: Sequence[Any],
        keys: Sequence[Any] | None,
        start: int,
        partition: int | None,
        timestamp: int,
        deliveries: Deliveries,
        headers: HeaderColumn | None = None,
    ) -> int:
        """Appends ``values[start:]`` as far as there is room. Returns the index of the first one that was not appended.

        ``headers`` are for Arrow columns only.
        """
