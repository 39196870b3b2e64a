"""The producers of a Python worker process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyclient.producer.blocking import Producer
from pyclient.spark.kept import Kept


def _close(producer: Producer) -> None:
    """With what it has not sent."""
    producer.close(0)


_kept: Kept[Producer] = Kept(_close)


@contextmanager
def producer_of(client: Mapping[str, str]) -> Iterator[Producer]:
    """A producer with these settings (``kafka.*``), of this process. One that met an error is closed, any other
    kept.
    """
    producer = _kept.take(client, lambda: Producer(config=dict(client)))
    try:
        yield producer
    except BaseException:
        _close(producer)
        raise
    _kept.put(client, producer)
