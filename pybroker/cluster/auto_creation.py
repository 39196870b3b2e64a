"""Creates topics that a broker needs: internal ones, and those that a client's Metadata request names.

Any broker may need them. A broker that is not the controller asks the controller.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from pybroker.cluster.decisions.internal_topics import internal_topic
from pybroker.cluster.decisions.plan import NewTopic, Outcome
from pybroker.cluster.metadata.image import INTERNAL_TOPICS, TopicImage
from pybroker.cluster.metadata_cache import MetadataCache
from pybroker.config import BrokerConfig
from pyclient.protocol import errors
from pyclient.protocol.errors import KafkaError

Create = Callable[[Sequence[NewTopic]], Awaitable[list[Outcome]]]
"""Creates topics. Returns the topic or an error for each request, in order."""

_log = logging.getLogger(__name__)


class AutoCreation:
    """Creates topics on any broker."""

    def __init__(self, config: BrokerConfig, cache: MetadataCache, create: Create) -> None:
        """``create`` lets the controller create topics, on this broker or another."""
        self._config = config
        self._cache = cache
        self._create = create
        self._told: dict[str, str] = {}
        """The reason that was last logged, by the name of an internal topic; all other topics share the key ""."""

    async def ensure_internal(self, name: str) -> TopicImage:
        """Returns the internal topic, after creating it if necessary. Raises the KafkaError that prevents it."""
        topic = self._cache.image.topic(name)
        if topic is not None:
            return topic
        outcome = (await self.ensure([name]))[name]
        if isinstance(outcome, KafkaError):
            raise outcome
        return outcome

    async def ensure(self, names: Sequence[str]) -> dict[str, Outcome]:
        """Like ``create``, but returns a topic that already exists instead of an error."""
        outcomes = await self.create(names)
        for name, outcome in outcomes.items():
            existing = self._cache.image.topic(name)
            if isinstance(outcome, errors.TopicAlreadyExists) and existing is not None:
                outcomes[name] = existing
        return outcomes

    async def create(self, names: Sequence[str]) -> dict[str, Outcome]:
        """Creates these topics; internal ones get their own configuration. Returns each topic or its error."""
        requests = [self._request(name) for name in names]
        outcomes = dict(zip(names, await self._create(requests), strict=True))
        for name, outcome in outcomes.items():
            if isinstance(outcome, errors.InvalidReplicationFactor):
                self._tell_missing(name, outcome)
        return outcomes

    def _request(self, name: str) -> NewTopic:
        if name in INTERNAL_TOPICS:
            return internal_topic(name, self._config, len(self._cache.image.brokers))
        return NewTopic(name)

    def _tell_missing(self, name: str, error: KafkaError) -> None:
        """Logs once why a topic cannot be created, since clients ask again and again and may name any topic."""
        reason, kind = str(error), name if name in INTERNAL_TOPICS else ""
        if reason != self._told.get(kind):
            self._told[kind] = reason
            _log.warning("%s cannot be created yet: %s", name, reason)
