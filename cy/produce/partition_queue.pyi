from typing import final

from cy.produce.producer_batch import ProducerBatch

@final
class PartitionQueue:
    """Batches of one partition that were never sent."""

    topic: str
    partition: int
    full: bool
    """There is a batch that is worth sending now."""
    available: bool
    """May be chosen for records without a key."""

    @property
    def empty(self) -> bool: ...
    @property
    def waiting_bytes(self) -> int: ...
    def first(self) -> ProducerBatch | None:
        """The batch that is next to be sent."""
    def remove(self, batch: ProducerBatch) -> None:
        """One leaves. Raises ValueError where it is not there."""
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
