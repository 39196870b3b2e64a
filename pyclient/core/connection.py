"""What a request is to those who post it; ``cy.connection`` keeps the order of requests and responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cy.connection import Connection, Pending
from cy.messages import Message
from cy.mould import Cast

if TYPE_CHECKING:
    from pyclient.errors import KafkaError

__all__ = ["Connection", "OnDone", "Pending", "Request"]

OnDone = Callable[[Any, "KafkaError | None"], None]
Request = Message | Cast | Callable[[int], Message]
"""A message; what makes one for a version; what was cast in a mould."""
