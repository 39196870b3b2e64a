"""Drives a shard with consumer groups: topics in an image, effects performed when a test says so."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from pybroker.cluster.metadata.image import MetadataDelta, MetadataImage, PartitionImage, TopicImage
from pybroker.coordinator.group.consumer import heartbeating
from pybroker.coordinator.group.consumer.context import ConsumerFacts
from pybroker.coordinator.group.consumer.group import ConsumerGroup
from pybroker.coordinator.group.consumer.settings import ConsumerSettings, Pace
from pybroker.coordinator.group.consumer.subscriptions.regexes import Resolve
from pybroker.coordinator.group.consumer.subscriptions.topics import Topics
from pybroker.coordinator.group.joining import Caller
from pybroker.coordinator.group.settings import GroupSettings
from pybroker.coordinator.group.shard import GroupShard
from pybroker.coordinator.group.tests import driver
from pybroker.coordinator.group.tests.driver import QUICK, Ticket
from pybroker.coordinator.shard import Event, Result
from pyclient.protocol import ConsumerGroupHeartbeat

Request = ConsumerGroupHeartbeat.Request
Has = dict[str, set[int]]

JOIN, LEAVE, LEAVE_STATIC = 0, -1, -2


def topic_image(name: str, partitions: int, number: int) -> TopicImage:
    """Returns a topic with so many partitions; its id is made from ``number``."""
    each = tuple(PartitionImage(index, 1, 0, 0, (1,), (1,)) for index in range(partitions))
    return TopicImage(name, number.to_bytes(16, "big"), each)


def image_of(**topics: int) -> MetadataImage:
    """Returns an image of topics, given by name and number of partitions."""
    made = [topic_image(name, count, 1 + at) for at, (name, count) in enumerate(topics.items())]
    return MetadataImage().apply(MetadataDelta(changed={topic.name: topic for topic in made}))


class Driver(driver.Driver):
    """One shard whose topics may change."""

    def __init__(
        self,
        image: MetadataImage | None = None,
        *,
        settings: ConsumerSettings | None = None,
        pace: Pace | None = None,
        classic: GroupSettings = QUICK,
        log: list[Any] | None = None,
    ) -> None:
        self.image = image or image_of(t=4)
        self.consumer_settings = settings or ConsumerSettings()
        self.pace = pace or Pace(assignment_interval_ms=0)
        self.largest_batch = 1 << 20
        self.effects: list[object] = []
        super().__init__(classic, log)

    def _make(self, settings: GroupSettings) -> GroupShard:
        topics = Topics(lambda: self.image)
        facts = ConsumerFacts(self.consumer_settings, lambda group_id: self.pace, topics, lambda: self.largest_batch)
        return GroupShard(settings, self._new_id, lambda: self.image, facts)

    def again(self) -> Driver:
        """Returns a driver whose coordinator, on another broker, has loaded the same log."""
        other = Driver(
            self.image, settings=self.consumer_settings, pace=self.pace, log=list(self.log)
        )
        other.ids = self.ids
        return other

    def perform(self, event: Event, ticket: Ticket | None = None) -> Result:
        result = super().perform(event, ticket)
        if not (self.refuse and result.records):
            self.effects += result.effects
        return result

    def do_effects(self) -> None:
        """Performs the lookups that the shard asked for, and returns their results to it."""
        effects, self.effects = self.effects, []
        for effect in effects:
            assert isinstance(effect, Resolve)
            self.perform(partial(self.shard.consumers.resolved, effect.group_id, effect.look()))

    def change_topics(self, **topics: int) -> None:
        """Creates topics, or adds partitions."""
        changed = {}
        for name, count in topics.items():
            known = self.image.topic(name)
            number = len(self.image.topics) + 1 if known is None else int.from_bytes(known.id, "big")
            changed[name] = topic_image(name, count, number)
        self.image = self.image.apply(MetadataDelta(changed=changed))

    def delete_topic(self, name: str) -> None:
        """Deletes the topic."""
        self.image = self.image.apply(MetadataDelta(deleted={name: self.image.topics[name]}))

    # Requests

    def beat(
        self,
        member_id: str = "m",
        epoch: int = JOIN,
        *,
        group: str = "g",
        has: Has | None = None,
        version: int = 1,
        client: str = "c",
        **fields: Any,
    ) -> Ticket:
        """Sends a heartbeat. ``has`` are the partitions that the member reports as its own."""
        owned = None
        if has is not None:
            owned = [
                Request.TopicPartitions(
                    topic_id=self.image.topics[topic].id, partitions=sorted(partitions)
                )
                for topic, partitions in has.items()
                if partitions
            ]
        request = Request(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            topic_partitions=owned,
            **fields,
        )
        caller = Caller(version, client, "/127.0.0.1")

        def event(result: Result) -> None:
            heartbeating.check(request, version, self.consumer_settings.assignors)
            self.shard.consumers.heartbeat(request, caller, result)

        return self.send(event)

    def come(
        self,
        member_id: str = "m",
        *topics: str,
        rebalance_ms: int = 60_000,
        **fields: Any,
    ) -> Ticket:
        """Lets a member join, by default to read ``t``."""
        if "subscribed_topic_regex" not in fields:
            fields["subscribed_topic_names"] = list(topics or ("t",))
        return self.beat(member_id, JOIN, has={}, rebalance_timeout_ms=rebalance_ms, **fields)

    def describe(self, group: str = "g") -> Any:
        """Returns the answer to ConsumerGroupDescribe."""
        return self.send(lambda result: self.shard.consumers.describe(group, result)).answer

    def consumers(self, group: str = "g") -> ConsumerGroup:
        """Returns the group."""
        found = self.shard.groups[group]
        assert isinstance(found, ConsumerGroup)
        return found

    def has(self, member_id: str, group: str = "g") -> Has:
        """Returns the partitions that the coordinator has assigned to the member, by topic name."""
        member = self.consumers(group).members[member_id]
        return {self.image.names[id]: set(owned) for id, owned in member.assigned.items()}

    def told(self, ticket: Ticket) -> Has | None:
        """Returns the assignment in an answer, by the names of topics; None if the answer has none."""
        assignment = ticket.answer.assignment
        if assignment is None:
            return None
        return {
            self.image.names[each.topic_id]: set(each.partitions)
            for each in assignment.topic_partitions
        }


class Client:
    """A member that obeys the coordinator: it revokes partitions at once, and reports those that it has."""

    def __init__(self, driver: Driver, member_id: str, **fields: Any) -> None:
        self.driver = driver
        self.id = member_id
        self.fields = fields
        self.has: Has = {}
        self.epoch = 0
        self._said: Has | None = None

    def come(self, *topics: str) -> Client:
        """Joins."""
        self.take(self.driver.come(self.id, *topics, **self.fields))
        return self

    def beat(self) -> None:
        """Sends a heartbeat. It reports the member's partitions if they have changed."""
        says = self.has if self.has != self._said else None
        self._said = self.has
        instance = {k: v for k, v in self.fields.items() if k == "instance_id"}
        self.take(self.driver.beat(self.id, self.epoch, has=says, **instance))

    def take(self, ticket: Ticket) -> None:
        """Applies a response."""
        self.epoch = ticket.answer.member_epoch
        told = self.driver.told(ticket)
        if told is not None:
            self.has = told
            self._said = None


def settle(clients: Iterable[Client], rounds: int = 20) -> None:
    """Lets all clients send heartbeats until the group is stable."""
    members = list(clients)
    for _ in range(rounds):
        for member in members:
            member.beat()
        if members[0].driver.consumers().state == "Stable":
            return
    raise AssertionError(f"{members[0].driver.consumers()!r} after {rounds} rounds")
