"""What a request is to those who post it; ``cy.client.connection`` keeps the order of requests and responses."""

from __future__ import annotations

from collections.abc import Callable

from cy.client.connection import Connection, Pending
from cy.produce.produce_template import Cast
from cy.wire.messages import Message

__all__ = ["Connection", "Pending", "Request"]

Request = Message | Cast | Callable[[int], Message]
"""A message; what makes one for a version; what was cast in a template."""
