"""The phases of a producer's batch, from its first record until its outcome is reported."""

from __future__ import annotations

from enum import Enum


class Phase(Enum):
    """A batch is QUEUED in its partition's queue, and in every other phase in its partition's lane."""

    QUEUED = "it was never sent"
    UNDER_WAY = "a request has it; it waits for its ack"
    ARRIVED = "its request has ended; its outcome is being decided"
    WAITING = "it will be sent again"
    DENIED = "it may have been written, and waits: the broker has answered that its sequence is out of order"
    WRITTEN = "it is in the log"
    FAILED = "it will not be sent again"


QUEUED, UNDER_WAY, ARRIVED, WAITING, DENIED, WRITTEN, FAILED = Phase
