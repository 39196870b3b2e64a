"""A transaction whose records are all delivered, and which is still open."""

from __future__ import annotations

from typing import NamedTuple


class PreparedTransaction(NamedTuple):
    """The facts that any process needs to end a prepared transaction. The names are KIP-939's."""

    transactional_id: str
    producer_id: int
    epoch: int
