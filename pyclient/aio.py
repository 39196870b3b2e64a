"""The asyncio interface: the same names as ``pyclient``, on the running loop.

    async with aio.Admin("localhost:9092") as admin:
        await admin.create_topics("flights")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pyclient.topic_partition import TopicPartition as TopicPartition

if TYPE_CHECKING:
    from cy.produce.record_metadata import RecordMetadata as RecordMetadata
    from pyclient.admin.asynchronous import Admin as Admin
    from pyclient.consumer.asynchronous import Consumer as Consumer
    from pyclient.producer.asynchronous import Producer as Producer

_HOMES = {
    "Consumer": "pyclient.consumer.asynchronous",
    "Producer": "pyclient.producer.asynchronous",
    "RecordMetadata": "cy.produce.record_metadata",
    "Admin": "pyclient.admin.asynchronous",
}
__all__ = ["TopicPartition", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__name__"]
