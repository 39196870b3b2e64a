"""Types of requests; ``cy.client.connection`` keeps the order of requests and responses."""

from __future__ import annotations

from collections.abc import Callable

from cy.client.connection import Connection, Pending
from cy.produce.produce_template import Cast
from cy.wire.messages import Message

__all__ = ["Connection", "Pending", "Request"]

Request = Message | Cast | Callable[[int], Message]
"""A message, a function that makes one for a version, or a message that was encoded as a template."""
