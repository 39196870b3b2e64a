"""The producers of a Python worker process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyclient.producer.blocking import Producer
from pyclient.spark.kept import Kept


def _close(producer: Producer) -> None:
    """Closes the producer without sending the rest."""
    producer.close(0)


_kept: Kept[Producer] = Kept(_close)


@contextmanager
def producer_of(client: Mapping[str, str]) -> Iterator[Producer]:
    """Returns a context with a producer of this process that has these settings (``kafka.*``). After an error it is
    closed, otherwise kept.
    """
    producer = _kept.take(client, lambda: Producer(config=dict(client)))
    try:
        yield producer
    except BaseException:
        _close(producer)
        raise
    _kept.put(client, producer)
