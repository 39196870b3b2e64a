"""The consumers of a Python worker process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from pyclient import Consumer
from pyclient.errors import KafkaError
from pyclient.spark.kept import Kept

_DEFAULTS: Final[Mapping[str, Any]] = {
    "client.id": "pybroker-spark",
    "max.partition.fetch.bytes": 8 << 20,
    "queued.max.bytes": 64 << 20,
    "allow.auto.create.topics": False,
}
_FIXED: Final[Mapping[str, Any]] = {"auto.offset.reset": "none", "enable.auto.commit": False, "group.id": None}


def _close(consumer: Consumer) -> None:
    consumer.close(timeout=1.0)


_kept: Kept[Consumer] = Kept(_close)


@contextmanager
def consumer_of(client: Mapping[str, str]) -> Iterator[Consumer]:
    """Returns a context with a consumer of this process that has these settings (``kafka.*``) and no group. After an
    error it is closed, otherwise kept.
    """
    consumer = _kept.take(client, lambda: Consumer(config={**_DEFAULTS, **client, **_FIXED}))
    try:
        yield consumer
    except GeneratorExit:  # the query has reached a limit and needs no further rows
        _keep(client, consumer)
        raise
    except BaseException:
        _close(consumer)
        raise
    _keep(client, consumer)


def _keep(client: Mapping[str, str], consumer: Consumer) -> None:
    """Keeps the consumer without its fetched records. If it has fetched an error, closes it."""
    try:
        if consumer.assignment():
            consumer.poll(timeout=0)
        consumer.assign([])
    except KafkaError:
        _close(consumer)
    else:
        _kept.put(client, consumer)
