"""Membership by the consumer protocol (KIP-848): the coordinator assigns, and one API does everything.

Each heartbeat sends this member's changes and returns the coordinator's. A new assignment is reconciled in the
background. Partitions to revoke are given up after the application has processed their records; then the new ones are
taken over. The next heartbeat, sent at once, reports what is owned now.

Assignments name topics by id. A topic whose name is not known yet is looked up, and delays nothing else. A topic that
was deleted and created again has other partitions; the old ones are lost. Epoch 0 joins, -1 leaves, and -2 leaves but
keeps a static member's place.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import re
import uuid
from collections.abc import Collection
from typing import Any, Final

from pyclient.consumer.appointments import SETTLE
from pyclient.consumer.group.membership import GOODBYE_S, Membership
from pyclient.consumer.group.topic_pattern import HINT, for_broker
from pyclient.consumer.offsets.committed import at_coordinator
from pyclient.core.tasks import ended
from pyclient.errors import DENIED, NOT_MEMBER, KafkaError, check
from pyclient.protocol import ZERO_UUID, ConsumerGroupHeartbeat
from pyclient.protocol.errors import InvalidRegularExpression
from pyclient.topic_partition import TopicPartition

log = logging.getLogger(__name__)

JOIN, LEAVE, LEAVE_STATIC = 0, -1, -2
REGEX_VERSION: Final = 1
"""The first version of ConsumerGroupHeartbeat with which the coordinator matches patterns."""
LOOK_S: Final = 0.5
"""Seconds to look up topic names, before an assignment is reconciled for the known topics."""
UNRESOLVED_S: Final = 0.2
"""Seconds between look-ups of a topic that the metadata does not have yet."""


class ConsumerMembership(Membership):
    """A member of a group in which the coordinator assigns the partitions."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.member_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        self._interval = self._config.heartbeat_interval_ms / 1000
        self._target: dict[bytes, list[int]] | None = None
        self._topic_ids: dict[str, bytes] = {}
        """The ids of the topics whose partitions are owned, from the time of the take-over."""
        self._told: dict[str, Any] = {}
        """The fields of the last heartbeat that was answered."""
        self._is_known = False
        """Whether a heartbeat was sent, so that the coordinator may have this member."""
        self._reconciling: asyncio.Task[None] | None = None

    def subscription_changed(self) -> None:
        self._wake.set()

    def topics_changed(self, topics: frozenset[str]) -> None:
        """Does nothing: the coordinator watches the topics itself."""

    def watched_topics(self) -> Collection[str]:
        """Returns nothing: the coordinator assigns, so no member watches topics for the group."""
        return ()

    def regex_of(self, pattern: re.Pattern[str]) -> str | None:
        client = self._client
        if client.nodes.version(client.nodes.any_node(), ConsumerGroupHeartbeat) < REGEX_VERSION:
            return None
        return for_broker(pattern, self._config.exclude_internal_topics)

    # -- heartbeats ------------------------------------------------------------------------------------

    async def run(self) -> None:
        self.epoch = JOIN
        backoff = self._client.backoff()
        while True:
            if self._owner.poll_is_late():
                await self._leave_late()
            self._wake.clear()
            try:
                await at_coordinator(self._client, self.group_id, self._beat)
                backoff.reset()
                await self._rest(self._interval)
            except KafkaError as error:
                await self._on_error(error, backoff.next())

    async def _on_error(self, error: KafkaError, wait: float) -> None:
        log.info("group %s, member %s: %s", self.group_id, self.member_id, error)
        if error.name in NOT_MEMBER:
            self._put_out()
            await self._restart()
            await self.lose(self.owned())
        elif error.retriable or error.name in DENIED:
            if error.name in DENIED:
                topics = self._subscription.topics
                only = next(iter(topics)) if len(topics) == 1 else None
                self._owner.on_error(self._client.rights.told(error, group=self.group_id, topic=only))
                await self._appointments.at_poll(SETTLE)
            self._told = {}
            await asyncio.sleep(wait)
        elif isinstance(error, InvalidRegularExpression):
            raise type(error)(f"{self._subscription.regex!r}: {error}; {HINT}")
        else:
            raise error

    async def _restart(self) -> None:
        await self._end_reconciling()
        self.epoch, self._told, self._target = JOIN, {}, None

    def _fields(self) -> dict[str, Any]:
        """Returns this member's state for the coordinator."""
        subscription = self._subscription
        return {
            "instance_id": self.instance_id,
            "rack_id": self._config.client_rack or None,
            "rebalance_timeout_ms": self._config.max_poll_interval_ms,
            "subscribed_topic_names": [] if subscription.regex else sorted(subscription.topics),
            "subscribed_topic_regex": subscription.regex or "",
            "server_assignor": self._config.group_remote_assignor,
            "topic_partitions": self._owned_by_id(),
        }

    def _owned_by_id(self) -> dict[bytes, list[int]]:
        topics: dict[bytes, list[int]] = {}
        for tp in sorted(self.owned()):
            topics.setdefault(self._topic_ids[tp.topic], []).append(tp.partition)
        return topics

    async def _beat(self, node: int) -> None:
        fields = self._fields()
        told = {} if self.epoch == JOIN else self._told
        changed = {name: value for name, value in fields.items() if name not in told or told[name] != value}
        if not changed.get("subscribed_topic_regex") and not told.get("subscribed_topic_regex"):
            changed.pop("subscribed_topic_regex", None)
        request = self._request(changed)
        self._is_known = True
        response = await self._client.send(node, ConsumerGroupHeartbeat, request)
        check(response.error_code, response.error_message)
        self._told = fields
        if response.member_id:
            self.member_id = response.member_id
        self.epoch = response.member_epoch
        self.show()
        self._interval = response.heartbeat_interval_ms / 1000
        if response.assignment is not None:
            self._target = {row.topic_id: row.partitions for row in response.assignment.topic_partitions}
            self._reconcile()

    def _request(self, fields: dict[str, Any]) -> ConsumerGroupHeartbeat.Request:
        owned = fields.pop("topic_partitions", None)
        if owned is not None:
            row = ConsumerGroupHeartbeat.Request.TopicPartitions
            fields["topic_partitions"] = [row(topic_id=each, partitions=numbers) for each, numbers in owned.items()]
        return ConsumerGroupHeartbeat.Request(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.epoch, **fields
        )

    # -- reconciliation --------------------------------------------------------------------------------

    def _reconcile(self) -> None:
        """Makes the assignment equal to the target. A single task does so until they are equal."""
        if self._reconciling is None or self._reconciling.done():
            self._reconciling = self._watched(self._reconcile_all())

    async def _reconcile_all(self) -> None:
        done: tuple[dict[bytes, list[int]], dict[bytes, str]] | None = None
        while (target := self._target) is not None:
            names = await self._names(target)
            if self._target is not target:
                continue
            if done is None or done[0] is not target or done[1] != names:
                await self._become(target, names)
                done = target, names
            elif len(names) == len(target):
                return
            else:
                await asyncio.sleep(UNRESOLVED_S)

    async def _names(self, target: dict[bytes, list[int]]) -> dict[bytes, str]:
        """Returns the names of the target's topics that are known, after a look-up if needed."""
        names = self._known(target)
        if len(names) < len(target):
            look = self._client.learn_names([topic_id for topic_id in target if topic_id not in names])
            with contextlib.suppress(KafkaError):
                await self._client.within(look, self._client.clock() + LOOK_S)
            names = self._known(target)
        return names

    def _known(self, target: dict[bytes, list[int]]) -> dict[bytes, str]:
        """Returns the known topic names by id. An owned topic keeps its name even if the metadata lack it."""
        cluster = self._client.cluster
        ours = {self._topic_ids[topic]: topic for topic in self._owned_topics() if not self._is_replaced(topic)}
        names = {topic_id: cluster.topic_name(topic_id) or ours.get(topic_id) for topic_id in target}
        return {topic_id: name for topic_id, name in names.items() if name is not None}

    def _owned_topics(self) -> set[str]:
        return {tp.topic for tp in self.owned()}

    def _is_replaced(self, topic: str) -> bool:
        """Returns whether another topic has this name now, according to the metadata."""
        return self._client.cluster.topic_id(topic) not in (self._topic_ids[topic], ZERO_UUID)

    async def _become(self, target: dict[bytes, list[int]], names: dict[bytes, str]) -> None:
        """Makes the assignment equal to the target for these topics, unless the target changes meanwhile."""
        replaced = {topic for topic in self._owned_topics() if self._is_replaced(topic)}
        await self.lose([tp for tp in self.owned() if tp.topic in replaced])
        wanted = {TopicPartition(name, number) for topic_id, name in names.items() for number in target[topic_id]}
        await self.revoke(self.owned() - wanted)
        if self._target is target:
            self._topic_ids = {name: topic_id for topic_id, name in names.items()}
            await self.take_over(wanted, always=False)
            self._wake.set()

    async def _end_reconciling(self) -> None:
        task, self._reconciling = self._reconciling, None
        if task is not None:
            await ended(task)

    # -- the end ---------------------------------------------------------------------------------------

    async def _leave_late(self) -> None:
        log.warning("group %s: no poll for max.poll.interval.ms, the member leaves", self.group_id)
        await self._end_reconciling()
        self._put_out()
        self._hold_back(self.owned())
        with contextlib.suppress(KafkaError):
            await self.leave("")
        await self._restart()
        await self._appointments.at_poll(SETTLE)
        await self.lose(self.owned())

    async def stop(self) -> None:
        try:
            await super().stop()
        finally:
            await self._end_reconciling()

    async def leave(self, reason: str, timeout: float = GOODBYE_S) -> None:
        if not self._is_known:
            return
        epoch = LEAVE if self.instance_id is None else LEAVE_STATIC
        request = ConsumerGroupHeartbeat.Request(
            group_id=self.group_id, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id
        )
        self.epoch, self._is_known = -1, False
        await self._say_goodbye(ConsumerGroupHeartbeat, request, timeout)
