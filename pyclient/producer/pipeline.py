"""The steps from a record to bytes for a partition: interceptors, serializers, partitioner."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cy.produce.callback_order import check_order
from pyclient.config import PRODUCER, Config
from pyclient.core.reports.rare import RareLog
from pyclient.errors import ConfigError, KafkaError
from pyclient.producer.errors import SerializationError
from pyclient.serialization import Serializer, serializer

log = logging.getLogger("pyclient.producer")
Headers = Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]]
OnDelivery = Callable[[Any, KafkaError | None], Any]
Partitioner = Callable[[str, bytes | None, bytes | None, int], int]
"""Chooses a partition. The arguments are topic, key, value and number of partitions."""


@dataclass(slots=True)
class ProducerRecord:
    """A record as interceptors see and may change it."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp: int | None = None
    headers: Any = None


class Interceptor(Protocol):
    """An object that sees each record (KIP-42). Only ``on_send`` is required."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Called by ``send`` before the serializers; returns the record to send."""


class Pipeline:
    """The serializers, interceptors and partitioner of one producer."""

    def __init__(self, config: Config) -> None:
        self._rare = RareLog(log)
        self.key_serializer: Serializer | None = serializer(config.key_serializer, "key.serializer")
        self.value_serializer: Serializer | None = serializer(config.value_serializer, "value.serializer")
        self.interceptors: Sequence[Any] = _listed(config.interceptor_classes)
        chosen = config.partitioner_class
        self.round_robin = chosen in ("round_robin", "RoundRobinPartitioner")
        self.partitioner: Partitioner | None = None
        if chosen is not None and not self.round_robin:
            if not callable(chosen):
                raise ConfigError("partitioner.class must be None, 'round_robin' or a callable")
            self.partitioner = chosen
        for interceptor in self.interceptors:
            configure = getattr(interceptor, "configure", None)
            if configure is not None:
                configure({name: config[name] for name in PRODUCER})

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to apply to records."""
        return not (
            self.key_serializer or self.value_serializer or self.interceptors or self.partitioner
        )

    @property
    def sees_records(self) -> bool:
        """True if an interceptor or partitioner needs each record: then ``send_many`` sends one by one."""
        return bool(self.interceptors or self.partitioner)

    def intercept(self, record: ProducerRecord) -> ProducerRecord:
        """Returns the record after the interceptors. If one fails, it is skipped and the error is logged."""
        for interceptor in self.interceptors:
            try:
                record = interceptor.on_send(record)
            except Exception:
                self._rare.exception("on_send of %r failed", interceptor)
        return record

    def acknowledgement(self, on_delivery: OnDelivery | None) -> OnDelivery | None:
        """Returns the function to call with a record's outcome. Raises TypeError for an invalid ``on_delivery``."""
        if on_delivery is not None:
            check_order(on_delivery)
        told = [each for each in self.interceptors if hasattr(each, "on_acknowledgement")]
        if not told:
            return on_delivery

        def call(metadata: Any, error: KafkaError | None) -> None:
            for interceptor in told:
                try:
                    interceptor.on_acknowledgement(metadata, error)
                except Exception:
                    self._rare.exception("on_acknowledgement of %r failed", interceptor)
            if on_delivery is not None:
                on_delivery(metadata, error)

        return call

    def key(self, topic: str, key: Any) -> Any:
        """Returns the key as bytes."""
        return _applied(self.key_serializer, topic, key, "key")

    def value(self, topic: str, value: Any) -> Any:
        """Returns the value as bytes."""
        return _applied(self.value_serializer, topic, value, "value")

    def close(self) -> None:
        """Closes the interceptors."""
        for interceptor in self.interceptors:
            close = getattr(interceptor, "close", None)
            if close is not None:
                try:
                    close()
                except Exception:
                    log.exception("close of %r failed", interceptor)


def _applied(function: Serializer | None, topic: str, data: Any, what: str) -> Any:
    if function is None or data is None:
        return data
    try:
        return function(topic, data)
    except Exception as error:
        of = type(data).__name__
        raise SerializationError(f"{topic}: the {what}, of type {of}, could not be serialized: {error}") from error


def _listed(given: Any) -> Sequence[Any]:
    if given is None:
        return ()
    made = list(given) if isinstance(given, Iterable) else [given]
    return [each() if isinstance(each, type) else each for each in made]
