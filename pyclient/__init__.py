"""A Kafka client: ``Producer``, ``Consumer``, ``Admin``; blocking here, on asyncio in ``pyclient.aio``.

    from pyclient import Admin

    with Admin("localhost:9092") as admin:
        admin.create_topics("flights", num_partitions=3)

Modules are imported when a name of theirs is first used.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cy.other_name import told
from pyclient.not_compiled import COMPILED, advice
from pyclient.other_names import OF_MODULE
from pyclient.topic_partition import TopicPartition as TopicPartition

if TYPE_CHECKING:
    from cy.produce.producer_batch import DeliveryReport as DeliveryReport
    from cy.produce.record_metadata import RecordMetadata as RecordMetadata
    from pyclient import aio as aio
    from pyclient.admin import Admin as Admin
    from pyclient.admin import NewTopic as NewTopic
    from pyclient.consumer import Consumer as Consumer
    from pyclient.consumer import OffsetAndMetadata as OffsetAndMetadata
    from pyclient.consumer import RebalanceListener as RebalanceListener
    from pyclient.consumer import Record as Record
    from pyclient.errors import ConfigError as ConfigError
    from pyclient.errors import KafkaError as KafkaError
    from pyclient.producer.blocking import Producer as Producer

_HOMES = {
    "Consumer": "pyclient.consumer",
    "Record": "pyclient.consumer",
    "OffsetAndMetadata": "pyclient.consumer",
    "RebalanceListener": "pyclient.consumer",
    "Producer": "pyclient.producer.blocking",
    "RecordMetadata": "cy.produce.record_metadata",
    "DeliveryReport": "cy.produce.producer_batch",
    "Admin": "pyclient.admin",
    "ConfigError": "pyclient.errors",
    "KafkaError": "pyclient.errors",
    "NewTopic": "pyclient.admin",
}
__all__ = ["TopicPartition", "aio", *_HOMES]


def __getattr__(name: str) -> Any:
    if name == "aio":
        return _loaded("pyclient.aio")
    if name == "__version__":
        from importlib.metadata import version  # slow to import

        return version("pybroker")
    if (here := OF_MODULE.get(name)) is not None:
        raise AttributeError(told(f"module {__name__!r}", name, here))
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(_loaded(_HOMES[name]), name)
    globals()[name] = found
    return found


def _loaded(module: str) -> ModuleType:
    """Imports a module. If the sources are not compiled, raises ImportError with the command that compiles them."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(COMPILED):
            raise
        raise ImportError(advice()) from error


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__name__", "__version__"]
