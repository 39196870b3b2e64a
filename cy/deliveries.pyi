from collections.abc import Generator
from typing import Any, final

from cy.producer_batch import DeliveryReport, ProducerBatch

@final
class Accepted:
    """What ``send`` of the asyncio face returns: awaited, it gives the report at once."""

    def __await__(self) -> Generator[Any, Any, DeliveryReport]: ...

@final
class Deliveries:
    """What becomes of many records: a light view on their batches."""

    def __init__(self, size: int, timestamp: int) -> None: ...
    def keep(self, report: DeliveryReport) -> None:
        """The next record was sent by itself; all of them must be."""
    def __len__(self) -> int: ...
    def __getitem__(self, at: int) -> DeliveryReport: ...
    @property
    def done(self) -> bool: ...
    @property
    def error(self) -> Any:
        """The first error."""
    def pending(self) -> list[ProducerBatch]: ...
    def result(self, timeout: float | None = None) -> int:
        """Waits until all are done; the number of records. Raises the first error, TimeoutError."""
    def outcome(self) -> int:
        """The number of records, or raises the first error, once all are done."""
    def __await__(self) -> Generator[Any, Any, int]: ...
