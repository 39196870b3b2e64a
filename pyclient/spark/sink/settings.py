"""The producer's settings from ``kafka.*``, and those that the sink chooses itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyclient.config import PRODUCER, load
from pyclient.errors import ConfigError

EXACTLY_ONCE: Final = "exactly-once"
TIMEOUT_MS: Final = 900_000
"""The time-out of transactions in ms: the brokers' default limit (transaction.max.timeout.ms)."""
_REFUSED: Final = {
    "key.serializer": "keys are written as they are: cast the column key to string or binary",
    "value.serializer": "values are written as they are: cast the column value to string or binary",
    "interceptor.classes": "interceptors would see each row by itself",
    "partitioner.class": "rows are handed over as columns: give a column partition",
    "transactional.id": 'the sink names its transactions: set delivery to "exactly-once", and transactionalIdPrefix',
}
_FIXED: Final = {"acks": ("all", "-1"), "enable.idempotence": ("true",)}


def client_settings(given: Mapping[str, str], *, exactly_once: bool) -> dict[str, str]:
    """Returns the settings of the tasks' producers. Raises ConfigError for one that is wrong, or that the sink does not
    allow.
    """
    for name, why in _REFUSED.items():
        if name in given:
            raise ConfigError(f"option kafka.{name} is not supported: {why}")
    settings = dict(given)
    if exactly_once:
        for name, right in _FIXED.items():
            if settings.get(name, right[0]).lower() not in right:
                raise ConfigError(f"option kafka.{name}={settings[name]}: exactly-once needs {right[0]}")
        settings.setdefault("transaction.timeout.ms", str(TIMEOUT_MS))
    if not settings.get("bootstrap.servers"):
        raise ConfigError("option kafka.bootstrap.servers is missing")
    load(PRODUCER, None, settings, {})
    return settings
