"""The producers of a Python worker process, kept from one of its tasks to the next, as ``spark.clients`` keeps
consumers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from pyclient.producer.blocking import Producer

MOST: Final = 4
"""That are kept; the one that was not used for longest is closed."""
_kept: dict[frozenset[tuple[str, str]], Producer] = {}


@contextmanager
def producer_of(client: Mapping[str, str]) -> Iterator[Producer]:
    """A producer with these settings (``kafka.*``), of this process. One that met an error is closed, with what it has
    not sent; any other is kept.
    """
    key = frozenset(client.items())
    producer = _kept.pop(key, None) or Producer(config=dict(client))
    try:
        yield producer
    except BaseException:
        producer.close(0)
        raise
    _kept[key] = producer
    while len(_kept) > MOST:
        _kept.pop(next(iter(_kept))).close(0)
