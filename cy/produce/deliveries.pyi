from collections.abc import Generator
from typing import Any, final

from cy.produce.producer_batch import DeliveryReport, ProducerBatch

@final
class Deliveries:
    """The results of many records: a lightweight view of their batches."""

    def __init__(self, size: int, timestamp: int) -> None: ...
    def keep(self, report: DeliveryReport) -> None:
        """Adds the report of the next record. All records must be added in order."""
    def __len__(self) -> int: ...
    def __getitem__(self, at: int) -> DeliveryReport: ...
    @property
    def done(self) -> bool: ...
    @property
    def error(self) -> Any:
        """The first error, or None."""
    def pending(self) -> list[ProducerBatch]: ...
    def ask(self) -> list[ProducerBatch]:
        """Returns ``pending``, and notes that the application asks for the outcome of these batches."""
    def result(self, timeout: float | None = None) -> int:
        """Waits until all are done and returns the number of records. Raises the first error, or TimeoutError."""
    def outcome(self) -> int:
        """Returns the number of records, or raises the first error, when all are done."""
    def __await__(self) -> Generator[Any, Any, int]: ...
