"""A transaction that is complete and not ended."""

from __future__ import annotations

from typing import NamedTuple


class PreparedTransaction(NamedTuple):
    """What it takes to end a transaction from anywhere: the names are KIP-939's."""

    transactional_id: str
    producer_id: int
    epoch: int
