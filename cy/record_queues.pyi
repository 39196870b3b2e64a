from collections.abc import Callable, Sequence
from typing import Any

from cy.arrow_column import HeaderColumn
from cy.deliveries import Deliveries
from cy.partition_queue import PartitionQueue, TopicQueues
from cy.producer_batch import DeliveryReport, ProducerBatch
from cy.record_metadata import RecordMetadata

def milliseconds(timestamp: int | None) -> int:
    """A record's timestamp, of None the time now. Raises TypeError, ValueError."""

class RecordQueues:
    """Records on their way into batches; see the module. Thread-safe under the GIL."""

    used: int
    limit: int
    direct: bool
    closed: bool
    """Nothing is appended any more."""
    awaitable: bool
    before_wait: Callable[[ProducerBatch], Callable[[], object] | None] | None
    """Called before somebody waits for a batch; raises where the wait would have no end. What it gives
    is called when the batch is done within that wait.
    """

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
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Any = None,
        on_delivery: Callable[[RecordMetadata | None, Any], object] | None = None,
    ) -> Any:
        """Sends a record; does not wait, except for metadata of a topic and for room (max.block.ms).

        Returns a view on what becomes of it. ``timestamp`` in milliseconds, now by default.
        ``headers``: pairs of name and bytes. Raises BufferExhausted, RecordTooLarge, KafkaError;
        TypeError for what is not bytes.
        """
    def try_send(
        self, topic: str, value: Any, key: Any, partition: int | None, timestamp: int | None, headers: Any, on_delivery: Any
    ) -> DeliveryReport | None:
        """As ``send``; None where the topic or partition is not known, or there is no room, or it is closed."""
    def attach(self, wake: Callable[[], object]) -> None:
        """``wake()`` is called, in whatever thread, when the sender should look."""
    def poke(self) -> None:
        """Wakes the sender."""
    def take_news(self) -> list[PartitionQueue]:
        """The queues that got something since the last call."""
    def release(self, batch: ProducerBatch) -> None:
        """The batch is done: its memory is free."""
    def charge(self, batch: ProducerBatch) -> None:
        """The batch did not come by ``send``."""
    def close_all(self) -> None:
        """What comes next goes into new batches."""
    def topic(self, name: str) -> TopicQueues | None: ...
    def set_partitions(self, name: str, count: int) -> None: ...
    def forget_topic(self, name: str) -> TopicQueues | None: ...
    def fits(self, size: int) -> bool:
        """Whether a record of ``size`` bytes may ever be sent."""
    def has_room(self, size: int) -> bool:
        """Whether a record of ``size`` bytes finds room."""
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
        """Appends ``values[start:]`` as far as there is room; the index of the first that is not in. ``headers``: with
        Arrow columns only.
        """
