"""Consumer groups of the KIP-848 protocol: the part that handlers call, and that uses the broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from pybroker.cluster.metadata.image import OFFSETS_TOPIC, MetadataImage
from pybroker.config import BrokerConfig
from pybroker.config.topic_config import stored_topic_config
from pybroker.coordinator.group.consumer import heartbeating
from pybroker.coordinator.group.consumer.context import ConsumerFacts
from pybroker.coordinator.group.consumer.settings import ConsumerSettings, Paces
from pybroker.coordinator.group.consumer.subscriptions.regexes import Resolve
from pybroker.coordinator.group.consumer.subscriptions.resolved import Resolved
from pybroker.coordinator.group.consumer.subscriptions.topics import Topics
from pybroker.coordinator.group.joining import Caller, Sees
from pybroker.coordinator.runtime import Runtime
from pyclient.protocol import ConsumerGroupDescribe, ConsumerGroupHeartbeat, errors
from pyclient.protocol.errors import KafkaError

if TYPE_CHECKING:
    from pybroker.coordinator.group.shard import GroupShard

GROUP_VERSION = "group.version"
NAMES_AT_ONCE: Final = 100
"""How many topics one turn of the loop checks against a client's rights."""

logger = logging.getLogger(__name__)


class ConsumerGroups:
    """The KIP-848 part of a broker's group coordinator.

    ``partition_of`` returns the shard of ``runtime`` to which a group belongs.
    """

    def __init__(
        self,
        config: BrokerConfig,
        image: Callable[[], MetadataImage],
        partition_of: Callable[[str], int],
        runtime: Runtime[GroupShard],
    ) -> None:
        self._image = image
        self._partition_of = partition_of
        self._runtime = runtime
        self._enabled = "consumer" in config["group.coordinator.rebalance.protocols"]
        self._tasks: set[asyncio.Task[None]] = set()
        self.facts = ConsumerFacts(
            ConsumerSettings.from_config(config),
            Paces(config, image),
            Topics(image),
            lambda: _largest_batch(config, image()),
        )

    # Requests

    async def heartbeat(
        self, request: ConsumerGroupHeartbeat.Request, caller: Caller
    ) -> ConsumerGroupHeartbeat.Response:
        """Handles a member's heartbeat, with which it joins, continues or leaves."""
        try:
            self._check_supported()
            heartbeating.check(request, caller.version, self.facts.settings.assignors)
            reply: ConsumerGroupHeartbeat.Response = await self._runtime.submit(
                self._partition_of(request.group_id),
                lambda shard, result: shard.consumers.heartbeat(request, caller, result),
            )
            return reply
        except KafkaError as error:
            return ConsumerGroupHeartbeat.Response(
                error_code=error.code, error_message=str(error)
            )

    async def describe(self, group_id: str) -> ConsumerGroupDescribe.Response.DescribedGroup:
        """Describes one group."""
        described = ConsumerGroupDescribe.Response.DescribedGroup
        try:
            self._check_supported()
            if not group_id:
                raise errors.InvalidGroupId
            reply: ConsumerGroupDescribe.Response.DescribedGroup = await self._runtime.submit(
                self._partition_of(group_id),
                lambda shard, result: shard.consumers.describe(group_id, result),
            )
            return reply
        except KafkaError as error:
            return described(group_id=group_id, error_code=error.code, error_message=str(error))

    def _check_supported(self) -> None:
        """Raises UnsupportedVersion if the cluster or this broker has disabled the protocol."""
        if not self._enabled:
            raise errors.UnsupportedVersion("the consumer protocol is not enabled")
        if self._image().features.get(GROUP_VERSION, 1) < 1:
            raise errors.UnsupportedVersion(f"{GROUP_VERSION} is 0")

    # Effects

    def perform(self, partition: int, effect: object) -> None:
        """Resolves regular expressions on another thread, and passes the result to the group."""
        if not isinstance(effect, Resolve):
            raise TypeError(f"unknown effect {effect!r}")
        task = asyncio.get_running_loop().create_task(self._resolve(partition, effect))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _resolve(self, partition: int, resolve: Resolve) -> None:
        found: Mapping[str, Resolved] | None = None
        try:
            found = await asyncio.to_thread(resolve.look)
            if resolve.sees is not None:
                found = await _seen(found, resolve.sees)
        except Exception:
            logger.exception("the regular expressions of group %s could not be resolved", resolve.group_id)
        self._runtime.tell(
            partition,
            lambda shard, result: shard.consumers.resolved(resolve.group_id, found, result),
        )

    def close(self) -> None:
        """Cancels all lookups."""
        for task in tuple(self._tasks):
            task.cancel()


def _largest_batch(config: BrokerConfig, image: MetadataImage) -> int:
    topic = image.topic(OFFSETS_TOPIC)
    return stored_topic_config(config, {} if topic is None else topic.configs).max_message_bytes


async def _seen(found: Mapping[str, Resolved], sees: Sees) -> dict[str, Resolved]:
    """Removes topics that the member may not describe; checks ``NAMES_AT_ONCE`` of them per turn of the loop."""
    names = list(frozenset().union(*(each.topics for each in found.values())))
    seen: set[str] = set()
    for begin in range(0, len(names), NAMES_AT_ONCE):
        seen.update(filter(sees, names[begin : begin + NAMES_AT_ONCE]))
        await asyncio.sleep(0)
    return {regex: each._replace(topics=each.topics & seen) for regex, each in found.items()}
