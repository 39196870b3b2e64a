from collections.abc import Callable

from cy.produce.partition_queue import PartitionQueue, TopicQueues
from cy.produce.producer_batch import ProducerBatch

class SharedQueues:
    """Queues of batches, and the memory that these take; see the module. Thread-safe under the GIL."""

    used: int
    limit: int
    max_record: int
    closed: bool
    """Nothing is appended any more."""
    before_wait: Callable[[ProducerBatch], Callable[[], object] | None] | None
    """Called before a thread waits for a batch; raises if the wait would never end. Its result is called when the
    batch is done within that wait.
    """

    def __init__(
        self, batch_size: int, buffer_memory: int, max_request_size: int, clock: Callable[[], float]
    ) -> None: ...
    @property
    def spare(self) -> int:
        """Bytes of memory that is kept for the next batches."""
    def attach(self, wake: Callable[[], object]) -> None:
        """``wake()`` is called, in whatever thread, when the sender should look."""
    def poke(self) -> None:
        """Wakes the sender."""
    def take_news(self) -> list[PartitionQueue]:
        """The queues that got something since the last call."""
    def release(self, batch: ProducerBatch) -> None:
        """The batch is done: its memory is free."""
    def trim(self) -> None:
        """Gives spare memory back, if nothing is under way."""
    def charge(self, batch: ProducerBatch) -> None:
        """The batch did not come by ``send``."""
    def close_all(self) -> None:
        """Puts the next records into new batches."""
    def topic(self, name: str) -> TopicQueues | None: ...
    def set_partitions(self, name: str, count: int) -> None: ...
    def forget_topic(self, name: str) -> None:
        """The next record of the topic has to wait for ``set_partitions``; unless batches wait."""
    def fits(self, size: int) -> bool:
        """Whether a record of ``size`` bytes may ever be sent."""
    def has_room(self, size: int) -> bool:
        """Whether a record of ``size`` bytes finds room."""
