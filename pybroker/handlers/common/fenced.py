"""Translates PRODUCER_FENCED for older clients, which do not know it (KIP-588)."""

from __future__ import annotations

from pyclient.protocol import errors
from pyclient.protocol.errors import KafkaError


def code(error: KafkaError, version: int, first_with_fenced: int) -> int:
    """Returns the error's code. Before ``first_with_fenced``, a fenced producer gets INVALID_PRODUCER_EPOCH."""
    if version < first_with_fenced and isinstance(error, errors.ProducerFenced):
        return errors.InvalidProducerEpoch.code
    return error.code
