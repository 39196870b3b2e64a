from typing import final

from cy.produce.producer_batch import ProducerBatch

@final
class PartitionQueue:
    """Batches of one partition that were never sent."""

    topic: str
    partition: int
    full: bool
    """True if a batch is worth sending now."""
    available: bool
    """True if the partition may be chosen for records without a key."""

    @property
    def empty(self) -> bool: ...
    @property
    def waiting_bytes(self) -> int: ...
    def first(self) -> ProducerBatch | None:
        """Returns the batch to send next, None if there is none."""
    def remove(self, batch: ProducerBatch) -> None:
        """Removes a waiting batch. Raises ValueError if the batch is not in this queue."""
    def batches(self) -> list[ProducerBatch]:
        """Returns all waiting batches, oldest first."""

@final
class TopicQueues:
    """The queues of one topic."""

    name: str
    queues: list[PartitionQueue]

    def __init__(self, name: str) -> None: ...
    @property
    def partition_count(self) -> int: ...
    def resize(self, count: int) -> None: ...
