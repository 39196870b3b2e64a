"""Brings the partitions of this broker in line with the metadata: which partitions are here, and with which logs.

``apply`` takes new metadata, and ``announce`` follows when they are published. ``roles`` gives each partition its role,
leader or follower.

| What the metadata say | What happens to the log |
|---|---|
| a replica is here, and its log too | it is opened, and gets the topic's configuration |
| a replica is here for the first time | ``new_logs`` creates its log when it is needed; for internal topics at once |
| the same, but a log dir is missing that may have the log | no log is created (``PartitionTable.must_wait``) |
| a replica has moved to other brokers | it is deleted |
| the topic was deleted | ``delete_leaving`` deletes it |
| anything else: another topic id, no such topic or partition | it is set aside as a *stray*, which keeps its files |

So a log is deleted only after a change of the metadata that removes its replica or topic. A start deletes no log just
because the metadata do not have it.

Loop's thread only; a pool deletes and recovers logs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from concurrent.futures import Executor
from functools import partial
from typing import Final

from pybroker.cluster.metadata.image import MetadataDelta, MetadataImage, PartitionImage, TopicImage
from pybroker.config import BrokerConfig, ConfigError, stored_topic_config, topic_config
from pybroker.config.log_config import LogConfig
from pybroker.log.log import Log
from pybroker.log.manager import LogManager
from pybroker.replication.partition import Partition
from pybroker.replication.partition_table import PartitionTable
from pybroker.replication.purgatory import Purgatory
from pybroker.replication.roles import Roles
from pybroker.replication.strays import ADVICE, reason_to_leave
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors

PLACED_PER_TURN: Final = 500
"""How many partitions whose logs need not be opened get their role in one turn of the loop."""
TELLING_PAUSE_S: Final = 0.1
"""How long failures to create logs are gathered before they are reported together."""

logger = logging.getLogger(__name__)


class Placement:
    """Decides which partitions are here, and with which logs."""

    def __init__(
        self,
        node_id: int,
        partitions: PartitionTable,
        logs: LogManager,
        roles: Roles,
        purgatory: Purgatory,
        preferred_dir: Callable[[TopicPartition], str | None],
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        changes: Executor,
    ) -> None:
        """``preferred_dir`` returns the log dir requested for a new log; ``changes`` runs work that blocks."""
        self._node_id = node_id
        self._partitions = partitions
        self._logs = logs
        self._roles = roles
        self._purgatory = purgatory
        self._preferred_dir = preferred_dir
        self._config = config
        self._loop = loop
        self._changes = changes
        self.on_lost: Callable[[], object] = lambda: None
        """Called soon after creating logs has failed, except while their metadata is being applied."""
        self._telling: asyncio.TimerHandle | None = None
        """The timer until ``on_lost`` is called."""
        self._started = False
        """True when the first metadata are applied."""
        self._is_applying = False
        """True from ``apply`` to ``announce``."""
        config.on_change(self._on_config_change)

    # New metadata

    async def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Brings this broker's partitions in line with ``image``, in which ``delta`` is new.

        New logs are created later: see ``new_logs``.
        """
        self._is_applying = True
        self._partitions.new.pause()
        before, self._partitions.image = self._partitions.image, image
        self._roles.on_brokers(delta.brokers)
        await self._remove_topics(delta.deleted.values())
        for topic in delta.missing.values():
            await self._set_aside([partition.log for partition in self._partitions.give_up(topic.id)])
        if delta.reading is not None or not self._started:
            await self._drop_logs_of_others({topic.id for topic in delta.deleted.values()})
        if any(log_dir.offline for log_dir in self._logs.dirs):
            self._roles.drop_offline()
        for topic in delta.changed.values():
            await self._place_topic(topic, before.topic_by_id(topic.id))
        self._started = True

    def announce(self) -> None:
        """Tells the listeners which partitions this broker leads by the metadata last applied, and creates new logs.

        Call it when these metadata are published, so that listeners find the topics in them to which their logs refer.
        """
        self._is_applying = False
        self._roles.announce()
        self._partitions.new.go_on()

    def close(self) -> None:
        """Stops creating logs."""
        self._partitions.new.close()
        if self._telling is not None:
            self._telling.cancel()

    # Partitions with a replica here

    async def _place_topic(self, topic: TopicImage, before: TopicImage | None) -> None:
        """Places the topic's partitions that have changed, with turns of the loop in between."""
        config = self._config_of(topic)
        for number, partition in enumerate(self._changed(topic, before), 1):
            if await self._place(topic, partition, config) or number % PLACED_PER_TURN == 0:
                await asyncio.sleep(0)

    def _changed(self, topic: TopicImage, before: TopicImage | None) -> Iterator[PartitionImage]:
        """Yields the topic's partitions that have changed, often one among thousands."""
        if before is None or before.configs != topic.configs:
            yield from topic.partitions
            return
        here = self._partitions.topics.get(topic.name, {})
        later = self._partitions.new.of(topic.id)
        known = len(before.partitions)
        for index, partition in enumerate(topic.partitions):
            is_same = index < known and partition is before.partitions[index]
            is_placed = index in here or index in later
            if not is_same or (not is_placed and self._node_id in partition.replicas):
                yield partition

    async def _place(self, topic: TopicImage, image: PartitionImage, config: LogConfig) -> bool:
        """Gives one partition its log and its role, or removes it. Returns True if that may have taken long."""
        if self._logs.may_remember(TopicPartition(topic.name, image.index)):  # a request may create its log meanwhile
            await self._loop.run_in_executor(self._changes, self._logs.forget_deleted)
        known = self._partitions.topics.get(topic.name, {}).get(image.index)
        partition = known
        try:
            if self._node_id not in image.replicas:
                self._partitions.expect_no_more(topic.id, image.index)
                if known is not None:
                    await self._remove(known)
                return known is not None
            if known is None:
                partition = await self._open(topic, image, config)
            elif known.log.config != config:
                known.log.config = config
            if partition is not None:
                self._roles.give(partition, image)
        except errors.KafkaError as error:
            logger.error("%s-%d: %s", topic.name, image.index, error)
        return partition is not known

    async def _open(self, topic: TopicImage, image: PartitionImage, config: LogConfig) -> Partition | None:
        """Opens the log of a partition that is new here, and returns the partition.

        If the log is missing, it is usually created later, and this returns None. It is created at once if a
        coordinator needs it or an earlier attempt failed. Also returns None if the log may be on a missing disk.
        """
        tp = TopicPartition(topic.name, image.index)
        log = self._logs.get(tp)
        is_new = not self._partitions.expect(topic.id, image.index)
        if log is None and self._partitions.must_wait(topic, image, is_start=not self._started):
            return None
        if log is None and is_new and not topic.is_internal and not self._logs.is_stray(tp, topic.id):
            self._partitions.make_later(topic.id, image.index)
            return None
        if log is not None and log.topic_id not in (topic.id, bytes(16)):
            await self._set_aside([log])
        open_log = partial(self._logs.get_or_create, tp, topic.id, config, self._preferred_dir(tp))
        if self._logs.is_stray(tp, topic.id):  # it may have to be recovered
            log = await self._loop.run_in_executor(self._changes, open_log)
            log.log_dir.check_online()
        else:
            log = open_log()
        return self._add(topic.id, log)

    def _add(self, topic_id: bytes, log: Log) -> Partition:
        """Makes the partition of an open log, and adds it to those of this broker."""
        lag_time_max_ms = self._config["replica.lag.time.max.ms"]
        partition = Partition(log.topic_partition, topic_id, self._node_id, log, lag_time_max_ms)
        self._partitions.add(partition)
        return partition

    def make_new(self, topic_id: bytes, index: int) -> Partition | None:
        """Creates a log that ``new_logs`` has kept, and gives its partition its role. Returns None if that failed."""
        topic = self._partitions.image.topic_by_id(topic_id)
        image = None if topic is None else self._partitions.image.partition(topic.name, index)
        if topic is None or image is None or self._node_id not in image.replicas:
            return None  # the metadata that are being applied remove it
        tp = TopicPartition(topic.name, index)
        self._partitions.expect(topic_id, index)
        try:
            log = self._logs.get_or_create(tp, topic_id, self._config_of(topic), self._preferred_dir(tp))
            partition = self._add(topic_id, log)
            self._roles.give(partition, image)
        except errors.KafkaError as error:
            logger.error("%s: %s", tp, error)
            if self._telling is None:
                self._telling = self._loop.call_later(TELLING_PAUSE_S, self._tell_lost)
            return None
        if not self._is_applying:
            self._roles.announce()
        return partition

    def _tell_lost(self) -> None:
        self._telling = None
        self.on_lost()

    # Logs that are removed

    async def _remove_topics(self, topics: Iterable[TopicImage]) -> None:
        """Removes the replicas of deleted topics, and leaves their logs to ``delete_leaving``."""
        for topic in topics:
            partitions = self._partitions.give_up(topic.id)
            for partition in partitions:
                self._roles.withdraw(partition)
            self._logs.leaving.add(self._logs.take_out(partition.topic_partition for partition in partitions))
            await asyncio.sleep(0)

    async def delete_leaving(self) -> None:
        """Deletes the logs of deleted topics; returns when the deletion is durable. A thread then deletes the files."""
        while self._logs.leaving:
            await self._loop.run_in_executor(self._changes, self._logs.leaving.delete_some)

    async def _remove(self, partition: Partition) -> None:
        """Removes a replica from this broker; returns when the removal is durable. A thread then deletes the files."""
        self._roles.withdraw(partition)
        await self._delete([partition.topic_partition])

    async def _delete(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Deletes these logs; returns when the deletion is durable."""
        logs = self._logs.take_out(topic_partitions)
        if logs:
            await self._loop.run_in_executor(self._changes, self._logs.delete_all, logs)

    async def _drop_logs_of_others(self, deleted: Set[bytes]) -> None:
        """Deletes the logs of deleted topics. Other logs that the image does not have become strays."""
        await self._delete([log.topic_partition for log in self._logs if log.topic_id in deleted])
        image = self._partitions.image
        await self._set_aside([log for log in self._logs if reason_to_leave(log, image, self._node_id)])

    async def _set_aside(self, logs: list[Log]) -> None:
        """Turns logs that belong to no partition of this broker into strays, whose files are kept."""
        reasons = {log: reason_to_leave(log, self._partitions.image, self._node_id) for log in logs}
        for log in logs:
            hosted = self._partitions.topics.get(log.topic_partition.topic, {}).get(log.topic_partition.partition)
            if hosted is not None:
                self._roles.withdraw(hosted)
        self._logs.take_out(log.topic_partition for log in logs)
        if reasons:
            await self._loop.run_in_executor(self._changes, self._set_logs_aside, reasons)

    def _set_logs_aside(self, reasons: Mapping[Log, str]) -> None:
        """Turns logs into strays; blocks, so it runs on a pool thread."""
        for log, why in reasons.items():
            try:
                stray = self._logs.set_aside(log, why)
            except errors.KafkaStorageError as error:
                logger.error("the log of %s cannot be set aside: %s", log.topic_partition, error)
                continue
            if stray is not None:
                logger.error("%s: %s. %s", log.topic_partition, why, ADVICE % stray.folder)
        self._logs.forget_deleted()

    # Configurations

    def _config_of(self, topic: TopicImage) -> LogConfig:
        """Returns the topic's configuration, without keys that this version does not know."""
        try:
            config = topic_config(self._config, topic.configs)
            return config.asking_all_replicas() if topic.has_unknown_configs else config
        except ConfigError as error:
            logger.error("topic %s has a wrong setting, and the default is used instead: %s", topic.name, error)
            return stored_topic_config(self._config, topic.configs)

    def _on_config_change(self, names: frozenset[str]) -> None:
        """Reconfigures all logs, because a broker key that is a topic's default may have changed."""
        for name, partitions in list(self._partitions.topics.items()):
            topic = self._partitions.image.topic(name)
            if topic is not None:
                config = self._config_of(topic)
                for partition in list(partitions.values()):
                    if partition.log.config != config:
                        partition.log.config = config
                        partition.reconfigured()
                        partition.advance()
                        self._purgatory.wake(partition)
