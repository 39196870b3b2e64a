"""Performs the controller's decisions, one change at a time.

A change has four steps. It is planned from the image by ``decisions``. It is written to the store with its journal
entry, if the controller epoch is still current (``term``). It is applied on this broker (``MetadataCache.publish``).
Then the caller gets the answer. A large change is written and applied in several steps.

Invariants:

- A reply means that the change is durable, and visible on this broker. The other brokers apply the journal's entries
  one by one.
- One lock serialises changes and, on other brokers, the application of the journal. Reads of the image never wait.
- A change is planned from the image that contains all changes before it.
- A topic whose nodes differ from the image and cannot be corrected is *frozen*: plans leave it out (``corrections``).

``membership`` handles this broker's registration, its candidacy for controller and the expiry of its session.
``deletions`` finishes what a deletion leaves for later. ``auto_creation`` asks for topics, on any broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from cy.counted import shortened
from pybroker.cluster.auto_creation import AutoCreation, Create
from pybroker.cluster.catching_up import catching_up
from pybroker.cluster.corrections import load_correction
from pybroker.cluster.decisions import features
from pybroker.cluster.decisions.config_changes import ConfigChange, ConfigController, Result, may_allow_unclean
from pybroker.cluster.decisions.isr_changes import IsrChange, IsrOutcome
from pybroker.cluster.decisions.plan import NewPartitions, NewTopic, Outcome, Plan, Step, TopicName
from pybroker.cluster.decisions.reassignments import Reassignment
from pybroker.cluster.decisions.topics import TopicController, with_deleted
from pybroker.cluster.deletions import Deletions
from pybroker.cluster.election_log import tell
from pybroker.cluster.metadata import acl_nodes, journal, token_nodes
from pybroker.cluster.metadata.image import (
    DEFAULT_BROKER,
    BrokerRegistration,
    MetadataDelta,
    MetadataImage,
    ResourceType,
    TopicImage,
)
from pybroker.cluster.metadata_cache import MetadataCache
from pybroker.cluster.namesake import Overtaken
from pybroker.cluster.nodes.controller_election import Leadership, give_up
from pybroker.cluster.nodes.folders import make
from pybroker.cluster.nodes.loading import Deleted, load_deleted, load_nodes, load_unknown_topics
from pybroker.cluster.nodes.recording import Differs
from pybroker.cluster.remaining_nodes import RemainingNodes
from pybroker.cluster.term import Beginning, Term
from pybroker.config import BrokerConfig
from pybroker.store.interface import CoordinationError, CoordinationStore
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors
from pyclient.protocol.errors import KafkaError

if TYPE_CHECKING:
    from pybroker.cluster.decisions.quota_changes import QuotaChange
    from pybroker.cluster.decisions.quota_changes import Results as QuotaResults
    from pybroker.cluster.decisions.scram_changes import Results as ScramResults
    from pybroker.cluster.decisions.scram_changes import ScramChange
    from pybroker.security.acls import AclBinding, AclFilter, ResourcePattern

T = TypeVar("T")

ATTEMPTS = 3
"""How often a change is planned again if nodes differ from the metadata."""

_log = logging.getLogger(__name__)


class ControllerService:
    """Changes the cluster's metadata by async methods. They raise NotController if this broker is not the controller.
    """

    def __init__(
        self,
        store: CoordinationStore,
        cache: MetadataCache,
        config: BrokerConfig,
        node_id: int,
        topics: TopicController,
        create_elsewhere: Create | None = None,
    ) -> None:
        """``create_elsewhere`` asks the controller to create topics if this broker is not the controller."""
        self.store = store
        self._cache = cache
        self._config = config
        self._node_id = node_id
        self._topics = topics
        self._configs = ConfigController(config, node_id)
        self._lock = asyncio.Lock()
        self.term = Term(node_id)
        self._frozen: frozenset[str] = frozenset()
        self.deletions = Deletions(store, node_id, RemainingNodes(store, cache, self.term, self._lock))
        self.may_show: Callable[[BrokerRegistration], bool] = lambda own: True
        """Returns whether this broker may publish metadata that have the given registration of its id."""
        self._create_elsewhere = create_elsewhere or self.create_topics
        self.auto_creation = AutoCreation(config, cache, self._create_anywhere)

    @property
    def is_controller(self) -> bool:
        """True while this broker believes that it is the cluster's controller."""
        return self.term.is_on

    # The term

    async def take_over(
        self,
        leadership: Leadership,
        image: MetadataImage,
        brokers: Mapping[int, BrokerRegistration],
        deleted: Sequence[Deleted] = (),
    ) -> None:
        """Begins a term with ``image``, the newest one, and ``brokers``, those now alive.

        It writes that the term has begun, elects leaders, and then publishes the image. The deletions of the topics in
        ``deleted`` are completed soon after. Raises NotController if another term has already begun.
        """
        async with self._lock:
            term = await Beginning.open(self.store, leadership, image)
            self._frozen = frozenset()
            try:
                await self._begin_term(term, brokers)
            except Differs as error:
                _log.error("the metadata differ from the store at the start of a term, and are corrected: %s", error)
                correction = await load_correction(self.store, term.image)
                await term.write([correction.step])
                self._freeze(correction.frozen)
                await self._begin_term(term, brokers)
            await self.deletions.nodes.look(deleted)
            await self._publish_image(term.image, deleted)
            self.deletions.add(deleted)
            self.term.begin(term.recorder)

    async def _begin_term(self, term: Beginning, brokers: Mapping[int, BrokerRegistration]) -> None:
        """Writes the epoch, the levels of features that are missing, and the elections after ``brokers`` have changed.
        """
        epoch = term.recorder.leadership.epoch
        await term.write([self._topics.begin_term(term.image, self._node_id, epoch)])
        begin = features.begin(term.image)
        await term.write([begin] if begin else [])
        plan = self._topics.change_brokers(replace(term.image, frozen=self._frozen), brokers)
        await term.write(plan.steps)
        tell(plan.results, is_start=not self._cache.image.brokers)  # perhaps the whole cluster starts

    def step_down(self) -> None:
        """Ends this broker's term as controller."""
        self.term.end()

    async def resign(self) -> None:
        """Ends the term, if there is one, after the current change, so that another broker can begin one."""
        async with self._lock:
            leadership = self.term.leadership
            self.term.end()
        if leadership is not None:
            await give_up(self.store, leadership)

    # Another broker is the controller

    async def follow(self, image: MetadataImage, deleted: Sequence[Deleted] = (), *, or_older: bool = False) -> None:
        """Publishes ``image``, because another broker is the controller, unless this broker already has a newer one.

        With ``or_older`` it publishes an older image too: the current one may belong to a store that no longer exists.
        """
        async with self._lock:
            self.term.end()
            if or_older or image.version >= self._cache.image.version:
                await self._publish_image(image, deleted)

    async def follow_entry(self, version: int, data: bytes) -> None:
        """Applies the journal's entry of that version, if it is the next one."""
        async with self._lock:
            if version != self._cache.image.version + 1:
                return  # an image was read meanwhile
            delta = journal.decode(data, self._cache.image)
            await self._publish(delta)
            self.deletions.add(delta.deleted.values())

    # Brokers, leaders and replicas

    async def set_brokers(self, brokers: Mapping[int, BrokerRegistration]) -> None:
        """Elects leaders because ``brokers`` are now the live brokers; does nothing if they are the same as before."""
        tell(await self._change_or_plan_again(lambda image: self._topics.change_brokers(image, brokers)))

    async def alter_partition(self, leader: int, broker_epoch: int, changes: Sequence[IsrChange]) -> list[IsrOutcome]:
        """Decides on the changes that a leader proposes. Returns the resulting partition or an error for each.

        Raises StaleBrokerEpoch.
        """
        return await self._change_or_plan_again(
            lambda image: self._topics.alter_partition(image, leader, broker_epoch, changes)
        )

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition], *, unclean: bool
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elects leaders. Returns None or an error for each partition."""
        return await self._change(lambda image: self._topics.elect_leaders(image, partitions, unclean=unclean))

    async def rebalance(self) -> None:
        """Elects preferred leaders again, if other brokers lead too many partitions."""
        percentage = self._config["leader.imbalance.per.broker.percentage"]
        await self._change_or_plan_again(lambda image: self._topics.rebalance(image, percentage))

    async def alter_reassignments(
        self, requests: Sequence[Reassignment], *, may_change_factor: bool = True
    ) -> list[KafkaError | None]:
        """Begins or cancels reassignments. Returns None or an error for each request."""
        return await self._change(
            lambda image: self._topics.alter_reassignments(image, requests, may_change_factor=may_change_factor)
        )

    # Topics

    async def create_topics(self, requests: Sequence[NewTopic], *, validate_only: bool = False) -> list[Outcome]:
        """Creates topics. Returns the topic or an error for each request, in order."""
        return await self._change(lambda image: self._topics.create_topics(image, requests), validate_only)

    async def _create_anywhere(self, requests: Sequence[NewTopic]) -> list[Outcome]:
        """Creates topics; if another broker is the controller, asks that broker."""
        return await (self.create_topics if self.is_controller else self._create_elsewhere)(requests)

    async def create_partitions(
        self, requests: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> list[Outcome]:
        """Adds partitions. Returns the grown topic or an error for each request."""
        return await self._change(lambda image: self._topics.create_partitions(image, requests), validate_only)

    async def delete_topics(self, requests: Sequence[TopicName]) -> list[Outcome]:
        """Deletes topics. Returns the deleted topic or an error for each request.

        When it returns, the deletion is durable and visible. Each broker deletes its logs of the topics soon after.
        """
        before = self._cache.image
        try:
            return await self._delete_topics(requests)
        except Differs:
            between = self._cache.image
            outcomes = await self._delete_topics(requests)  # now that it is known which topics' nodes are incomplete
            return with_deleted(outcomes, requests, before, between)

    async def _delete_topics(self, requests: Sequence[TopicName]) -> list[Outcome]:
        topics = [topic for name, topic in self._cache.image.topics.items() if name in self._frozen]
        torn = {topic.name: await load_nodes(self.store, topic.name, topic.id) for topic in topics}
        return await self._change(lambda image: self._topics.delete_topics(image, requests, torn))

    # Settings and rights

    async def alter_configs(self, changes: Sequence[ConfigChange], *, validate_only: bool = False) -> list[Result]:
        """Changes configurations. Returns None or an error for each change. When it returns, the changes are in effect.

        If they allow unclean elections, these elections have been held.
        """
        results = await self._change(lambda image: self._configs.alter(image, changes), validate_only)
        if not validate_only and may_allow_unclean(changes):
            with contextlib.suppress(errors.NotController):  # the next controller begins with elections
                await self._change(lambda image: self._topics.change_brokers(image, image.brokers))
        return results

    async def update_features(
        self, updates: Sequence[features.FeatureUpdate], *, validate_only: bool = False
    ) -> list[str]:
        """Finalizes new feature levels. Returns the features that it leaves out. Raises InvalidUpdateVersion."""
        return await self._change(lambda image: features.update(image, updates), validate_only)

    async def alter_quotas(self, changes: Sequence[QuotaChange], *, validate_only: bool = False) -> QuotaResults:
        """Changes quotas and waits until this broker enforces them. Returns None or an error for each entity."""
        from pybroker.cluster.decisions.quota_changes import alter

        return await self._change(lambda image: alter(image, changes), validate_only)

    async def alter_scram(self, changes: Sequence[ScramChange]) -> ScramResults:
        """Changes users' SCRAM passwords and waits until they are valid. Returns None or an error for each user."""
        from pybroker.cluster.decisions.scram_changes import alter  # 5 ms, which a broker without users saves

        return await self._change(lambda image: alter(image, changes))

    async def create_acls(self, bindings: Sequence[AclBinding]) -> list[KafkaError | None]:
        """Creates ACLs and waits until they are in effect. Returns None or an error for each."""
        from pybroker.cluster.decisions.acl_changes import create  # a broker without ACLs saves this import

        await make(self.store, acl_nodes.FOLDERS)
        return await self._change_or_plan_again(lambda image: create(image, bindings).confirmed())

    async def delete_acls(self, wanted: AclFilter, among: Collection[ResourcePattern]) -> list[AclBinding]:
        """Deletes the ACLs of the patterns ``among`` that match the filter. Waits until they have no effect, and
        returns them.
        """
        from pybroker.cluster.decisions.acl_changes import delete

        return await self._change_or_plan_again(lambda image: delete(image, wanted, among).confirmed())

    async def change_tokens(self, decide: Callable[[MetadataImage], Plan[T]]) -> T:
        """Performs a decision of ``token_changes``, and returns its result when the change is in effect on this broker.

        Raises the KafkaError of the decision.
        """
        await make(self.store, token_nodes.FOLDERS)
        return await self._change_or_plan_again(decide)

    # How a change is performed

    async def _change_or_plan_again(self, decide: Callable[[MetadataImage], Plan[T]]) -> T:
        """Like ``_change``. If nodes differ from the metadata, plans again after the metadata are corrected or frozen.

        So one damaged topic does not block the others.
        """
        for _ in range(ATTEMPTS):
            try:
                return await self._change(decide)
            except Differs as error:
                _log.info("the change is planned again: %s", error)
        return await self._change(decide)

    async def _change(self, decide: Callable[[MetadataImage], Plan[T]], validate_only: bool = False) -> T:
        """Performs the plan that ``decide`` makes of the newest image; returns its results.

        With ``validate_only`` it changes nothing. If its caller is cancelled, the change still continues.
        """
        if validate_only:
            return decide(self._current).results
        task = asyncio.ensure_future(self._locked(lambda: self._perform(decide)))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # a cancelled caller reads neither
        await asyncio.wait([task])
        return task.result()

    @property
    def _current(self) -> MetadataImage:
        """The image to plan from. Its ``frozen`` has the topics that cannot be changed."""
        return replace(self._cache.image, frozen=self._frozen)

    async def _locked(self, work: Callable[[], Awaitable[T]]) -> T:
        async with self._lock:
            return await work()

    async def _perform(self, decide: Callable[[MetadataImage], Plan[T]]) -> T:
        """Plans and takes the steps, under the lock. If a step fails, the steps before it stay done, and the nodes of
        the topics that they deleted are removed later.
        """
        if not self.term.is_on:
            raise errors.NotController(f"broker {self._node_id} is not the controller")
        plan = decide(self._current)
        await self.deletions.free({name for step in plan.steps for name in step.delta.changed})
        deleted: dict[str, TopicImage] = {}
        try:
            for step in plan.steps:
                await self._write_and_publish(step)
                deleted.update(step.delta.deleted)
        finally:
            self.deletions.nodes.add(each for each in plan.later if each.name in deleted)
            self.deletions.add(deleted.values())
        return plan.results

    async def _write_and_publish(self, step: Step) -> None:
        """Takes one step. If nodes differ from the metadata, corrects the metadata and raises Differs."""
        try:
            await self.term.write(step, self._cache.image)
        except Differs as error:
            _log.error("the metadata differ from the store, and are corrected: %s", error)
            await self._correct()
            raise
        self._frozen -= step.delta.deleted.keys()
        if step.delta:
            await self._publish_own(step.delta)

    async def _publish_own(self, delta: MetadataDelta) -> None:
        """Applies the delta of this controller's writes. If it may not be published, ends the term, because later plans
        would need the delta.
        """
        try:
            await self._publish(delta)
        except Overtaken:
            self.term.break_off()
            raise

    # If the store differs from the metadata

    async def look_at_store(self) -> None:
        """Unfreezes topics whose nodes are complete again, and holds elections."""
        if self._frozen or await load_unknown_topics(self.store, lambda: self._cache.image):
            await self._locked(self._correct_topics)
            await self._change_or_plan_again(lambda image: self._topics.change_brokers(image, image.brokers))

    async def _correct_topics(self) -> None:
        if self.term.is_on:
            await self._correct()

    async def _correct(self) -> None:
        """Corrects the metadata on all brokers to match the store. If that fails, ends the term."""
        image = self._cache.image
        try:
            step, frozen = await load_correction(self.store, image)
            self._freeze(frozen)
            await self.term.write(step, image)
            if step.delta:
                await self._publish(step.delta)
            deleted = await load_deleted(self.store)
            await self.deletions.nodes.look(deleted)
            left = (each for each in deleted if each.id in self.deletions.nodes or not each.may_be_on(self._node_id))
            self.deletions.add(left)
        except (CoordinationError, KafkaError) as failure:
            _log.error("the metadata could not be corrected, so the term ends: %s", failure)
            self.term.break_off()

    def _freeze(self, names: frozenset[str]) -> None:
        """Freezes these topics and no others; logs those that were not frozen before."""
        new = sorted(names - self._frozen)
        if new:
            _log.error(
                "these topics are frozen, with their leaders and logs, because their nodes in the coordination store"
                " are missing or malformed (restore the nodes, or delete the topics): %s",
                shortened(new),
            )
        self._frozen = names

    # Publishing

    async def _publish_image(self, image: MetadataImage, noted: Sequence[Deleted] = ()) -> None:
        """Publishes ``image`` by one delta from the current image. Only the ``noted`` topics are deleted."""
        delta = catching_up(self._cache.image, image, self._node_id, noted)
        await self._publish(delta)
        self.deletions.add(delta.deleted.values())

    async def _publish(self, delta: MetadataDelta) -> None:
        """Applies a change on this broker, first to its configuration. Raises Overtaken if it may not be published."""
        own = delta.brokers.get(self._node_id)
        if own is not None and not self.may_show(own):
            raise Overtaken(f"broker {self._node_id} was registered again in epoch {own.epoch}")
        if any(resource is ResourceType.BROKER for resource, _ in delta.configs):
            image = self._cache.image.apply(delta)
            self._config.override(
                broker=image.configs(ResourceType.BROKER, str(self._node_id)),
                cluster=image.configs(ResourceType.BROKER, DEFAULT_BROKER),
            )
        await self._cache.publish(delta)
