"""PRODUCER_FENCED in the form that older clients know (KIP-588)."""

from __future__ import annotations

from pyclient.protocol import errors
from pyclient.protocol.errors import KafkaError


def code(error: KafkaError, version: int, first_with_fenced: int) -> int:
    """The code of the error; before that version of the API, INVALID_PRODUCER_EPOCH where the
    producer has been fenced.
    """
    if version < first_with_fenced and isinstance(error, errors.ProducerFenced):
        return errors.InvalidProducerEpoch.code
    return error.code
