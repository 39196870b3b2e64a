"""Topics: create, delete, list and describe them, add partitions, delete records, list offsets.

CreateTopics, DeleteTopics and CreatePartitions go to the controller, DeleteRecords and ListOffsets to the leaders.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyclient.admin.base import Base, by_topic, config_text, names
from pyclient.admin.fan_out import Anywhere, Leaders, fan_out
from pyclient.admin.needing import needing
from pyclient.admin.results import Results
from pyclient.admin.types import (
    CreatedTopic,
    ListedOffset,
    NewTopic,
    OffsetSpec,
    PartitionDescription,
    TopicDescription,
    TopicListing,
)
from pyclient.errors import CONTROLLER_LOST, KafkaError, UnknownTopicOrPartition, UnsupportedByBroker, of_code
from pyclient.protocol import (
    CreatePartitions,
    CreateTopics,
    DeleteRecords,
    DeleteTopics,
    DescribeTopicPartitions,
    ListOffsets,
    Metadata,
)
from pyclient.protocol.acls import AclOperation
from pyclient.protocol.uuids import to_base64
from pyclient.topic_partition import TopicPartition, by_partition

if TYPE_CHECKING:
    _Described = DescribeTopicPartitions.Response.DescribeTopicPartitionsResponseTopic
    _Row = Metadata.Response.MetadataResponseTopic | _Described
    _PartitionRow = (
        Metadata.Response.MetadataResponsePartition
        | DescribeTopicPartitions.Response.DescribeTopicPartitionsResponsePartition
    )

_ISOLATION = {"read_uncommitted": 0, "read_committed": 1}


class Topics(Base):
    """The part of the admin client for topics."""

    @needing(topic=AclOperation.CREATE, cluster=AclOperation.CREATE)
    async def create_topics(
        self,
        topics: str | NewTopic | Iterable[str | NewTopic],
        *,
        num_partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str | float | None] | None = None,
        validate_only: bool = False,
        timeout: float | None = None,
        check: bool = True,
    ) -> Results[str, CreatedTopic]:
        """Creates topics, given by name or as ``NewTopic``. The keywords apply to those given by name. With
        ``validate_only`` it only reports what would happen.

        Raises the first error, for example TopicAlreadyExists. With ``check=False`` the results contain the errors.
        """
        is_one = isinstance(topics, (str, bytes, NewTopic)) or not isinstance(topics, Iterable)
        given: list[Any] = [topics] if is_one else list(topics)
        defaults = (num_partitions, replication_factor, None, configs or {})
        wanted = [NewTopic(t, *defaults) if isinstance(t, str) else _checked(t) for t in given]
        by_name = {topic.name: topic for topic in wanted}
        deadline = self._deadline(timeout)

        async def ask(node: int, keys: list[str]) -> dict[str, CreatedTopic | KafkaError]:
            request = CreateTopics.Request(
                topics=[_creatable(by_name[key]) for key in keys],
                timeout_ms=self._left_ms(deadline),
                validate_only=validate_only,
            )
            response = await self._client.send(node, CreateTopics, request)
            return {row.name: _created(row) for row in response.topics}

        places = Anywhere(self._client, controller=True)
        results = await fan_out(
            self._client, by_name, places, ask, deadline, retry=CONTROLLER_LOST
        )
        return results.checked(check)

    @needing(topic=AclOperation.DELETE)
    async def delete_topics(
        self, topics: str | Iterable[str], *, timeout: float | None = None, check: bool = True
    ) -> Results[str, None]:
        """Deletes topics by name. Raises the first error unless ``check=False``."""
        deadline = self._deadline(timeout)

        async def ask(node: int, keys: list[str]) -> dict[str, KafkaError | None]:
            def message(version: int) -> DeleteTopics.Request:
                state = DeleteTopics.Request.DeleteTopicState
                if version < 6:
                    return DeleteTopics.Request(topic_names=keys, timeout_ms=left)
                return DeleteTopics.Request(topics=[state(name=k) for k in keys], timeout_ms=left)

            left = self._left_ms(deadline)
            response = await self._client.send(node, DeleteTopics, message)
            return {
                row.name: of_code(row.error_code, row.error_message) for row in response.responses
            }

        places = Anywhere(self._client, controller=True)
        results = await fan_out(
            self._client, names(topics), places, ask, deadline, retry=CONTROLLER_LOST
        )
        return results.checked(check)

    @needing(topic=AclOperation.ALTER)
    async def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
        timeout: float | None = None,
        check: bool = True,
    ) -> Results[str, None]:
        """Raises the number of partitions of topics to these counts. ``assignments`` gives the brokers of each new
        partition. Raises the first error unless ``check=False``.
        """
        if not isinstance(counts, Mapping):
            raise TypeError(f"{counts!r} is not a mapping {{topic: number of partitions}}")
        deadline = self._deadline(timeout)
        request = CreatePartitions.Request
        placed = assignments or {}

        def row(name: str) -> CreatePartitions.Request.CreatePartitionsTopic:
            rows = [
                request.CreatePartitionsAssignment(broker_ids=list(ids))
                for ids in placed.get(name, ())
            ]
            return request.CreatePartitionsTopic(
                name=name, count=counts[name], assignments=rows if name in placed else None
            )

        async def ask(node: int, keys: list[str]) -> dict[str, KafkaError | None]:
            message = request(
                topics=[row(key) for key in keys],
                timeout_ms=self._left_ms(deadline),
                validate_only=validate_only,
            )
            response = await self._client.send(node, CreatePartitions, message)
            return {
                each.name: of_code(each.error_code, each.error_message)
                for each in response.results
            }

        places = Anywhere(self._client, controller=True)
        results = await fan_out(self._client, names(counts), places, ask, deadline, retry=CONTROLLER_LOST)
        return results.checked(check)

    async def list_topics(
        self, *, list_internal: bool = False, timeout: float | None = None
    ) -> dict[str, TopicListing]:
        """Returns all topics by name."""
        response = await self._metadata(None, self._deadline(timeout))
        rows = [row for row in response.topics if row.name and not row.error_code]
        return {
            row.name: TopicListing(row.name, to_base64(row.topic_id), row.is_internal)
            for row in sorted(rows, key=lambda row: row.name or "")
            if row.name and (list_internal or not row.is_internal)
        }

    @needing(topic=AclOperation.DESCRIBE)
    async def describe_topics(
        self, topics: str | Iterable[str], *, timeout: float | None = None, check: bool = True
    ) -> Results[str, TopicDescription]:
        """Describes topics and their partitions. Raises the first error, for example UnknownTopicOrPartition, unless
        ``check=False``.
        """
        wanted, deadline = names(topics), self._deadline(timeout)
        rows: Iterable[_Row]
        try:
            rows = await self._described(wanted, deadline)
        except UnsupportedByBroker:
            rows = (await self._metadata(wanted, deadline)).topics
        results: Results[str, TopicDescription] = Results()
        for row in rows:
            name = row.name or ""
            error = of_code(row.error_code)
            results.put(name, _error_of(name, error) if error else _description(name, row))
        return results.checked(check)

    async def _described(self, wanted: list[str], deadline: float) -> Collection[_Described]:
        """Describes the topics, page by page (KIP-966). Raises UnsupportedByBroker before Kafka 3.7."""
        request = DescribeTopicPartitions.Request
        rows: dict[str, _Described] = {}
        left, cursor = sorted(wanted), None
        while left:
            message = request(topics=[request.TopicRequest(name=name) for name in left], cursor=cursor)
            response = await self._any(DescribeTopicPartitions, message, deadline)
            for row in response.topics:
                if row.name in rows:
                    rows[row.name].partitions += row.partitions
                else:
                    rows[row.name] = row
            if (end := response.next_cursor) is None:
                break
            cursor = request.Cursor(topic_name=end.topic_name, partition_index=end.partition_index)
            left = [name for name in left if name >= end.topic_name]
        return rows.values()

    @needing(topic=AclOperation.DELETE)
    async def delete_records(
        self,
        before: Mapping[TopicPartition, int],
        *,
        timeout: float | None = None,
        check: bool = True,
    ) -> Results[TopicPartition, int]:
        """Deletes the records before an offset; -1 means the high watermark. Returns the first remaining offset. Raises
        the first error unless ``check=False``.
        """
        deadline = self._deadline(timeout)
        request = DeleteRecords.Request
        targets = by_partition(before)

        async def ask(
            node: int, keys: list[TopicPartition]
        ) -> dict[TopicPartition, int | KafkaError]:
            rows = [
                request.DeleteRecordsTopic(
                    name=topic,
                    partitions=[
                        request.DeleteRecordsPartition(
                            partition_index=number, offset=targets[TopicPartition(topic, number)]
                        )
                        for number in numbers
                    ],
                )
                for topic, numbers in by_topic(keys).items()
            ]
            message = request(topics=rows, timeout_ms=self._left_ms(deadline))
            response = await self._client.send(node, DeleteRecords, message)
            return {
                TopicPartition(topic.name, row.partition_index): of_code(row.error_code)
                or row.low_watermark
                for topic in response.topics
                for row in topic.partitions
            }

        results = await fan_out(self._client, targets, Leaders(self._client), ask, deadline)
        return results.checked(check)

    @needing(topic=AclOperation.DESCRIBE)
    async def list_offsets(
        self,
        specs: Mapping[TopicPartition, int | str],
        *,
        isolation_level: str = "read_uncommitted",
        timeout: float | None = None,
        check: bool = True,
    ) -> Results[TopicPartition, ListedOffset]:
        """Returns offsets by ``OffsetSpec`` or its name (``"earliest"``, ``"latest"``), or by a time in ms since 1970.
        With ``read_committed`` the latest is the last stable offset. Raises the first error unless ``check=False``.
        """
        deadline = self._deadline(timeout)
        isolation = _ISOLATION[isolation_level]
        targets = {tp: OffsetSpec.of(spec) for tp, spec in by_partition(specs).items()}

        async def ask(
            node: int, keys: list[TopicPartition]
        ) -> dict[TopicPartition, ListedOffset | KafkaError]:
            message = ListOffsets.Request(
                replica_id=-1,
                isolation_level=isolation,
                topics=_asked({tp: targets[tp] for tp in keys}),
                timeout_ms=self._left_ms(deadline),
            )
            response = await self._client.send(node, ListOffsets, message)
            return {
                TopicPartition(topic.name, row.partition_index): of_code(row.error_code)
                or ListedOffset(row.offset, row.timestamp, row.leader_epoch)
                for topic in response.topics
                for row in topic.partitions
            }

        results = await fan_out(self._client, targets, Leaders(self._client), ask, deadline)
        return results.checked(check)


def _asked(specs: Mapping[TopicPartition, int]) -> list[ListOffsets.Request.ListOffsetsTopic]:
    request = ListOffsets.Request
    return [
        request.ListOffsetsTopic(
            name=topic,
            partitions=[
                request.ListOffsetsPartition(partition_index=number, timestamp=specs[TopicPartition(topic, number)])
                for number in numbers
            ],
        )
        for topic, numbers in by_topic(specs).items()
    ]


def _checked(given: NewTopic) -> NewTopic:
    """Returns the topic to create. Raises TypeError."""
    if isinstance(given, NewTopic):
        if isinstance(given.name, str):
            return given
        raise TypeError(f"NewTopic({given.name!r}): a name is a str")
    raise TypeError(f"{given!r} is neither a topic's name nor a NewTopic: write NewTopic(name, num_partitions=3)")


def _creatable(topic: NewTopic) -> CreateTopics.Request.CreatableTopic:
    request = CreateTopics.Request
    placed = topic.assignments
    if not isinstance(topic.configs, Mapping):
        raise TypeError(f"configs={topic.configs!r} is not a mapping of keys to values")
    return request.CreatableTopic(
        name=topic.name,
        num_partitions=-1 if placed else topic.num_partitions,
        replication_factor=-1 if placed else topic.replication_factor,
        assignments=[
            request.CreatableReplicaAssignment(partition_index=number, broker_ids=list(brokers))
            for number, brokers in (placed or {}).items()
        ],
        configs=[
            request.CreatableTopicConfig(name=name, value=config_text(value))
            for name, value in topic.configs.items()
        ],
    )


def _created(row: CreateTopics.Response.CreatableTopicResult) -> CreatedTopic | KafkaError:
    error = of_code(row.error_code, row.error_message)
    if error is not None:
        return error
    configs = None if row.configs is None else {each.name: each.value for each in row.configs}
    return CreatedTopic(
        to_base64(row.topic_id), row.num_partitions, row.replication_factor, configs
    )


def _error_of(name: str, error: KafkaError) -> KafkaError:
    is_missing = isinstance(error, UnknownTopicOrPartition)
    return type(error)(f"there is no topic {name!r}" if is_missing else f"{name}: {error}")


def _description(name: str, row: _Row) -> TopicDescription:
    partitions = sorted(_partition(each) for each in row.partitions)
    return TopicDescription(name, to_base64(row.topic_id), row.is_internal, tuple(partitions))


def _partition(row: _PartitionRow) -> PartitionDescription:
    return PartitionDescription(
        row.partition_index,
        row.leader_id,
        row.leader_epoch,
        tuple(row.replica_nodes),
        tuple(row.isr_nodes),
        tuple(row.offline_replicas),
        _ids(row, "eligible_leader_replicas"),
        _ids(row, "last_known_elr"),
    )


def _ids(row: object, name: str) -> tuple[int, ...] | None:
    """Returns the brokers in a field that some brokers leave empty, and that Metadata does not have."""
    found = getattr(row, name, None)
    return None if found is None else tuple(found)
