"""Performs what the controller decides, one change at a time.

A change is: plan from the image → write to the store, conditional on the controller epoch → apply
on this broker (``MetadataCache.publish``) → answer. So a reply means durable and visible. Changes
are serialised by a lock; reads of the image never wait.

This broker's registration, its candidacy for controller and its answer to an expired session are
in ``membership``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from pybroker.cluster import features
from pybroker.cluster.config_changes import ConfigChange, ConfigController, Result
from pybroker.cluster.controller import Controller
from pybroker.cluster.image import (
    DEFAULT_BROKER,
    INTERNAL_TOPICS,
    NO_CONFIGS,
    BrokerRegistration,
    MetadataDelta,
    MetadataImage,
    ResourceType,
    TopicImage,
)
from pybroker.cluster.internal_topics import internal_topic
from pybroker.cluster.leadership import Leadership
from pybroker.cluster.metadata_cache import MetadataCache
from pybroker.cluster.plan import (
    NewPartitions,
    NewTopic,
    Outcome,
    Plan,
    Step,
    TopicName,
    forget_deleted,
)
from pybroker.config import BrokerConfig
from pybroker.coordination.interface import (
    BadVersion,
    CoordinationError,
    CoordinationStore,
)
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors
from pyclient.protocol.errors import KafkaError
from pyclient.protocol.uuids import to_base64

T = TypeVar("T")

_log = logging.getLogger(__name__)


class ControllerService:
    """Changes of the cluster's metadata, as async methods; raises NotController elsewhere."""

    def __init__(
        self,
        store: CoordinationStore,
        cache: MetadataCache,
        config: BrokerConfig,
        node_id: int,
        controller: Controller,
    ) -> None:
        self.store = store
        self._cache = cache
        self._config = config
        self._node_id = node_id
        self._controller = controller
        self._configs = ConfigController(config, node_id)
        self._leadership: Leadership | None = None
        self._lock = asyncio.Lock()

    @property
    def is_controller(self) -> bool:
        """True while this broker is the cluster's controller, as far as it knows."""
        return self._leadership is not None

    async def take_over(
        self,
        leadership: Leadership,
        image: MetadataImage,
        restarted: Iterable[int] = (),
        deleted: Sequence[TopicImage] = (),
    ) -> None:
        """Begins a term: ``image`` is what the store holds; elects leaders, then shows it.

        Brokers in ``restarted``, and those whose epoch is not the one known before, lead only
        after a new election. Of the topics in ``deleted``, whose deletion was interrupted, logs
        may be left; they go now.
        """
        async with self._lock:
            known = self._cache.image.brokers
            again = set(restarted) | {
                id
                for id, broker in image.brokers.items()
                if id in known and known[id].epoch != broker.epoch
            }
            steps = self._controller.change_brokers(image, image.brokers, again).steps
            for step in filter(None, (features.begin(image), *steps)):
                await self._write(step, leadership)
                image = image.apply(step.delta)
            self._leadership = leadership
            await self._publish_image(image, deleted)
            await self._forget_deleted(deleted)

    async def follow(self, image: MetadataImage) -> None:
        """Another broker is the controller: shows ``image``."""
        async with self._lock:
            self._leadership = None
            await self._publish_image(image)

    def step_down(self) -> None:
        """The term is over."""
        self._leadership = None

    async def _publish_image(
        self, image: MetadataImage, interrupted: Sequence[TopicImage] = ()
    ) -> None:
        """Makes the current image into ``image`` by one delta; its ``deleted`` has the topics of
        interrupted deletions too, by id.
        """
        old = self._cache.image
        deleted = {to_base64(topic.id): topic for topic in interrupted} | {
            name: topic
            for name, topic in old.topics.items()
            if name not in image.topics or image.topics[name].id != topic.id
        }
        changed = {n: t for n, t in image.topics.items() if old.topics.get(n) != t}
        configs = {**{r: NO_CONFIGS for r in old.resource_configs}, **image.resource_configs}
        brokers = {**dict.fromkeys(old.brokers), **image.brokers}
        controller = (image.controller_id, image.controller_epoch)
        finalized = (image.features_epoch, image.features)
        await self._publish(MetadataDelta(changed, deleted, brokers, configs, controller, finalized))

    async def set_brokers(self, brokers: Mapping[int, BrokerRegistration]) -> None:
        """The live brokers are ``brokers`` now: elects leaders; nothing where nothing changes."""

        def plan(image: MetadataImage) -> Plan[None]:
            if image.brokers == brokers:
                return Plan(None)
            return self._controller.change_brokers(image, brokers)

        await self._change(plan)

    async def create_topics(
        self, requests: Sequence[NewTopic], *, validate_only: bool = False
    ) -> list[Outcome]:
        """The topic or the error of each request, in order."""
        return await self._change(
            lambda image: self._controller.create_topics(image, requests), validate_only
        )

    async def delete_topics(self, requests: Sequence[TopicName]) -> list[Outcome]:
        """The deleted topic or the error of each request; the logs are gone when this returns."""
        return await self._change(lambda image: self._controller.delete_topics(image, requests))

    async def create_partitions(
        self, requests: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> list[Outcome]:
        """The grown topic or the error of each request."""
        return await self._change(
            lambda image: self._controller.create_partitions(image, requests), validate_only
        )

    async def alter_configs(
        self, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> list[Result]:
        """None or the error of each change, incremental or not; in effect when this returns."""
        return await self._change(
            lambda image: self._configs.alter(image, changes), validate_only
        )

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition], *, unclean: bool
    ) -> dict[TopicPartition, KafkaError | None]:
        """None or the error of each partition."""
        return await self._change(
            lambda image: self._controller.elect_leaders(image, partitions, unclean=unclean)
        )

    async def update_features(
        self, updates: Sequence[features.FeatureUpdate], *, validate_only: bool = False
    ) -> None:
        """Finalizes new levels; raises InvalidUpdateVersion."""
        await self._change(lambda image: features.update(image, updates), validate_only)

    async def auto_create(self, names: Sequence[str]) -> dict[str, Outcome]:
        """Creates the topics that do not exist, internal ones with their own configuration."""
        requests = [self._request(name) for name in names]
        outcomes = dict(zip(names, await self.create_topics(requests), strict=True))
        for name, outcome in outcomes.items():
            existing = self._cache.image.topic(name)
            if isinstance(outcome, errors.TopicAlreadyExists) and existing is not None:
                outcomes[name] = existing
        return outcomes

    def _request(self, name: str) -> NewTopic:
        if name in INTERNAL_TOPICS:
            return internal_topic(name, self._config, len(self._cache.image.brokers))
        return NewTopic(name)

    async def ensure_internal_topic(self, name: str) -> TopicImage:
        """The internal topic, created if need be; raises the KafkaError that prevents it."""
        topic = self._cache.image.topic(name)
        if topic is not None:
            return topic
        outcome = (await self.auto_create([name]))[name]
        if isinstance(outcome, KafkaError):
            raise outcome
        return outcome

    async def _change(
        self, decide: Callable[[MetadataImage], Plan[T]], validate_only: bool = False
    ) -> T:
        if validate_only:
            return decide(self._cache.image).results
        task = asyncio.ensure_future(self._locked(lambda: self._perform(decide)))
        return await asyncio.shield(task)

    async def _locked(self, work: Callable[[], Awaitable[T]]) -> T:
        async with self._lock:
            return await work()

    async def _perform(self, decide: Callable[[MetadataImage], Plan[T]]) -> T:
        if self._leadership is None:
            raise errors.NotController(f"broker {self._node_id} is not the controller")
        plan = decide(self._cache.image)
        for step in plan.steps:
            await self._write(step, self._leadership)
            await self._publish(step.delta)
            await self._forget_deleted(step.delta.deleted.values())
        return plan.results

    async def _forget_deleted(self, topics: Iterable[TopicImage]) -> None:
        """Their logs are gone. What cannot be written now is done at the next start."""
        operations = forget_deleted(topics)
        try:
            if operations:
                await self.store.multi(operations)
        except CoordinationError as error:
            _log.warning("deleted topics stay noted in the coordination store: %s", error)

    async def _write(self, step: Step, leadership: Leadership) -> None:
        if not step.operations:
            return
        try:
            await self.store.multi([leadership.check(), *step.operations])
        except BadVersion as error:
            if error.index == 0:
                self.step_down()
            raise errors.NotController(f"another controller changed this: {error}") from error
        except CoordinationError as error:
            _log.error("the coordination store refused a change: %s", error)
            raise errors.UnknownServerError(f"coordination store: {error}") from error

    async def _publish(self, delta: MetadataDelta) -> None:
        if any(resource is ResourceType.BROKER for resource, _ in delta.configs):
            image = self._cache.image.apply(delta)
            self._config.override(
                broker=image.configs(ResourceType.BROKER, str(self._node_id)),
                cluster=image.configs(ResourceType.BROKER, DEFAULT_BROKER),
            )
        await self._cache.publish(delta)
