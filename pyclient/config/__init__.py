"""The keys of producer, consumer and admin, written with ``_`` or ``.``. Keys and defaults are those of Kafka 4.4.0."""

from __future__ import annotations

from pyclient.config.admin import ADMIN
from pyclient.config.consumer import CONSUMER
from pyclient.config.producer import PRODUCER
from pyclient.config.table import Config, load

__all__ = ["ADMIN", "CONSUMER", "PRODUCER", "Config", "load"]
