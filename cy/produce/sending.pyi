from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import Any, final

from cy.produce.producer_batch import DeliveryReport
from cy.produce.record_queues import RecordQueues

@final
class Sending(Coroutine[Any, Any, DeliveryReport]):
    """A coroutine that appends its record to a batch when it first runs, and returns the report."""

    def __await__(self) -> Generator[Any, Any, DeliveryReport]: ...
    def send(self, value: None, /) -> Any:
        """Runs the next step. Raises StopIteration with the report, or RuntimeError if it has ended before."""
    def throw(
        self,
        kind: type[BaseException] | BaseException,
        value: Any = ...,
        trace: TracebackType | None = None,
        /,
    ) -> Any:
        """Raises an exception at the point where the coroutine waits. The record is not sent."""
    def close(self) -> None:
        """Ends the coroutine. The record is not sent."""

class SendingQueues(RecordQueues):
    """A producer's queues whose ``send`` returns a coroutine, a ``Sending``."""
