"""The consumers of a Python worker process, kept from one of its tasks to the next: Spark uses the process again, and
a connection that is there saves a small batch most of its time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from pyclient import Consumer
from pyclient.errors import KafkaError

_DEFAULTS: Final[Mapping[str, Any]] = {
    "client.id": "pybroker-spark",
    "max.partition.fetch.bytes": 8 << 20,
    "queued.max.bytes": 64 << 20,
    "allow.auto.create.topics": False,
}
_FIXED: Final[Mapping[str, Any]] = {"auto.offset.reset": "none", "enable.auto.commit": False, "group.id": None}
_kept: dict[frozenset[tuple[str, str]], Consumer] = {}


@contextmanager
def consumer_of(client: Mapping[str, str]) -> Iterator[Consumer]:
    """A consumer with these settings (``kafka.*``), of this process; it is in no group. One that met an error is
    closed, any other kept.
    """
    key = frozenset(client.items())
    consumer = _kept.pop(key, None) or Consumer(config={**_DEFAULTS, **client, **_FIXED})
    try:
        yield consumer
    except GeneratorExit:  # the query wants no more: a limit
        _keep(key, consumer)
        raise
    except BaseException:
        consumer.close(timeout=1.0)
        raise
    _keep(key, consumer)


def _keep(key: frozenset[tuple[str, str]], consumer: Consumer) -> None:
    """Without what it has fetched; unless an error was fetched."""
    try:
        consumer.assign([])
        consumer.poll(timeout=0)
    except KafkaError:
        consumer.close(timeout=1.0)
    else:
        _kept[key] = consumer
