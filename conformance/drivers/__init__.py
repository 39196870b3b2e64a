"""Clients, foreign ones and our own, behind one interface (``base``): a scenario is written once, for all of them.

``opened("java")`` returns this process's only driver of that name; ``close_all`` closes all opened drivers.
"""

from __future__ import annotations

import importlib

from conformance.drivers.base import Driver
from harness.witnesses import used

#: Each driver's name, with its module and class.
DRIVERS = {
    "confluent": ("conformance.drivers.confluent", "ConfluentDriver"),
    "aiokafka": ("conformance.drivers.aio", "AiokafkaDriver"),
    "java": ("conformance.drivers.java", "JavaDriver"),
    "pyclient": ("conformance.drivers.sdk", "PyclientDriver"),
}
#: Each client with each group protocol that it speaks.
CLIENTS = (
    ("confluent", "classic"),
    ("confluent", "consumer"),
    ("aiokafka", "classic"),
    ("java", "classic"),
    ("java", "consumer"),
    ("pyclient", "classic"),
    ("pyclient", "consumer"),
)
#: The names that people use for them.
NAMES = {"confluent": "librdkafka", "java": "Java"}
_open: dict[str, Driver] = {}


def opened(name: str) -> Driver:
    """Opens the driver of that name once per process, because a JVM is expensive to start."""
    used(NAMES.get(name, name))
    if name not in _open:
        module, kind = DRIVERS[name]
        _open[name] = getattr(importlib.import_module(module), kind)()
    return _open[name]


def close_all() -> None:
    """Closes all drivers."""
    while _open:
        _open.popitem()[1].close()
