from typing import Any, final

from cy.producer_batch import ProducerBatch

@final
class PartitionQueue:
    """Batches of one partition that wait for the sender."""

    topic: str
    partition: int
    full: bool
    """There is a batch that is worth sending now."""
    available: bool
    """May be chosen for records without a key."""
    state: Any
    """The sender's."""

    @property
    def empty(self) -> bool: ...
    @property
    def waiting_bytes(self) -> int: ...
    def first(self) -> ProducerBatch | None:
        """The batch that is next to be sent."""
    def take(self) -> ProducerBatch:
        """Removes it from the queue."""
    def put_back(self, batch: ProducerBatch) -> None:
        """It is to be sent again: before those that were first sent later, or never."""
    def drain(self) -> list[ProducerBatch]:
        """Removes all."""
    def remove(self, batch: ProducerBatch) -> bool:
        """Removes one; False if it is not there."""
    def batches(self) -> list[ProducerBatch]:
        """All, oldest first."""

@final
class TopicQueues:
    """The queues of one topic."""

    name: str
    queues: list[PartitionQueue]

    def __init__(self, name: str) -> None: ...
    @property
    def partition_count(self) -> int: ...
    def resize(self, count: int) -> None: ...
