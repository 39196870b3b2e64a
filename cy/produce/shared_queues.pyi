from collections.abc import Callable

from cy.produce.partition_queue import PartitionQueue, TopicQueues
from cy.produce.producer_batch import ProducerBatch

class SharedQueues:
    """Queues of batches, and the memory that they take; see the module. Thread-safe under the GIL."""

    used: int
    limit: int
    max_record: int
    closed: bool
    """True if nothing may be appended any longer."""
    before_wait: Callable[[ProducerBatch], Callable[[], object] | None] | None
    """Called before a thread waits for a batch. Raises if the wait would never end. It returns a function, which is
    called if the batch is done within that wait.
    """

    def __init__(
        self, batch_size: int, buffer_memory: int, max_request_size: int, clock: Callable[[], float]
    ) -> None: ...
    @property
    def spare(self) -> int:
        """The bytes of memory kept for the next batches."""
    def attach(self, wake: Callable[[], object]) -> None:
        """Sets ``wake``, which is called, in any thread, when the sender should look."""
    def poke(self) -> None:
        """Wakes the sender."""
    def take_news(self) -> list[PartitionQueue]:
        """Returns the queues that got records since the last call."""
    def release(self, batch: ProducerBatch) -> None:
        """Frees the memory of a finished batch."""
    def trim(self) -> None:
        """Frees spare memory if there are no unfinished batches."""
    def charge(self, batch: ProducerBatch) -> None:
        """Counts the memory of a batch that was not made by ``send``."""
    def close_all(self) -> None:
        """Puts the next records into new batches."""
    def topic(self, name: str) -> TopicQueues | None: ...
    def set_partitions(self, name: str, count: int) -> None: ...
    def forget_topic(self, name: str) -> None:
        """Makes the topic's next record wait for ``set_partitions``, unless the topic has waiting batches."""
    def fits(self, size: int) -> bool:
        """Returns True if a record of ``size`` bytes is not too large to be sent."""
    def has_room(self, size: int) -> bool:
        """Returns True if there is room for a record of ``size`` bytes now."""
