"""Actions for an event whose records could not be written."""

from __future__ import annotations

from pybroker.coordinator.shard import Failure, Result
from pyclient.protocol.errors import KafkaError


def when_refused(result: Result, undo: Failure) -> None:
    """Lets a failed write call ``undo``, after the actions that were set before."""
    before = result.on_failure
    if before is None:
        result.on_failure = undo
        return

    def both(next: Result, error: KafkaError) -> None:
        before(next, error)
        undo(next, error)

    result.on_failure = both
