"""An authorizer for tests, and one request of each API that asks it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pyclient.protocol as p
from cy.batch import Builder
from pybroker.cluster.decisions.config_changes import ConfigOperation
from pybroker.cluster.metadata.image import ResourceType
from pybroker.handlers.common.security.rights import (
    ALTER_CLUSTER,
    ALTER_CONFIGS_CLUSTER,
    ALTER_CONFIGS_GROUP,
    ALTER_CONFIGS_TOPIC,
    ALTER_TOPIC,
    CLUSTER_ACTION,
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DELETE_CLUSTER,
    DELETE_GROUP,
    DELETE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS_CLUSTER,
    DESCRIBE_CONFIGS_GROUP,
    DESCRIBE_CONFIGS_TOPIC,
    DESCRIBE_GROUP,
    DESCRIBE_TOPIC,
    DESCRIBE_TRANSACTIONAL_ID,
    IDEMPOTENT_WRITE,
    READ_GROUP,
    READ_TOPIC,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    Right,
)
from pybroker.handlers.find_coordinator import CoordinatorType
from pyclient.protocol.acls import CLUSTER_NAME, AclOperation, AclResourceType
from pyclient.protocol.apis import Api

EXISTS, ABSENT = "exists", "absent"
"""The name of an existing topic, group and transactional id, and an equally long name of which none exists."""
TOPIC, GROUP = p.errors.TopicAuthorizationFailed.code, p.errors.GroupAuthorizationFailed.code
CLUSTER, TXN = p.errors.ClusterAuthorizationFailed.code, p.errors.TransactionalIdAuthorizationFailed.code
"""The error codes for lack of a right to that kind of resource."""
DENIED = {TOPIC, GROUP, CLUSTER, TXN}


_ANY_ACL = {
    **{"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None},
    **{"host_filter": None, "operation": 1, "permission_type": 1},
}


class FakeAuthorizer:
    """Allows exactly the rights that it is given, and remembers the rights that it was asked for."""

    def __init__(self) -> None:
        self.version = 0
        self.asked: set[Right] = set()
        self.denials: set[tuple[Right, str]] = set()
        """The denials that the audit log would name."""
        self.askers: set[tuple[str, str]] = set()
        self._allowed: set[tuple[Right, str]] = set()

    def allow(self, *rights: tuple[Right, str]) -> None:
        """Allows these rights, and no others."""
        self._allowed = set(rights)
        self.denials.clear()
        self.version += 1

    def authorize(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
        *,
        request: str = "",
        count: int = 1,
        is_told: bool = True,
    ) -> bool:
        right = Right(operation, resource_type)
        if is_told and (right, name) not in self._allowed:
            self.denials.add((right, name))
        self.asked.add(right)
        self.askers.add((principal, host))
        return (right, name) in self._allowed

    def authorize_any(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        right = Right(operation, resource_type)
        self.asked.add(right)
        return any(right == each for each, _ in self._allowed)


class Case(NamedTuple):
    """A request.

    * ``fields(name)``: its fields, about resources of that name, which exist or not.
    * ``least``: the rights that it needs, to resources of that name or to the cluster.
    * ``denied``: the error code without any right.
    * ``works``: the error codes with the ``least`` rights; None: any except those about rights.
    * ``on``: the name in the request for which ``works`` holds.
    """

    api: Api
    version: int
    fields: Callable[[str], dict[str, Any]]
    least: tuple[Right, ...]
    denied: int
    works: set[int] | None = set()
    on: str = EXISTS

    def request(self, name: str) -> Any:
        """Returns the request about resources of that name."""
        return built(self.api, self.fields(name))

    def rights(self, name: str) -> list[tuple[Right, str]]:
        """Returns the least rights in the authorizer's form."""
        return [(right, CLUSTER_NAME if right.kind is AclResourceType.CLUSTER else name) for right in self.least]

    def __str__(self) -> str:
        return f"{self.api.name}-{self.version}-{'-'.join(right.operation.name for right in self.least)}"


def built(api: Api, fields: dict[str, Any]) -> Any:
    """Returns the request with these fields; dicts represent its inner structs."""
    return _built(api.Request, api.Request, fields)


def _built(kind: Any, request: Any, fields: dict[str, Any]) -> Any:
    return kind(**{name: _value(request, value) for name, value in fields.items()})


def _value(request: Any, value: Any) -> Any:
    if isinstance(value, list):
        return [_value(request, each) for each in value]
    if not isinstance(value, dict):
        return value
    for kind in vars(request).values():
        if isinstance(kind, type):
            try:
                return _built(kind, request, value)
            except TypeError:
                continue
    raise AssertionError(f"nothing in {request} has the fields {sorted(value)}")


def batch(**more: Any) -> bytes:
    """Returns a record batch of one record."""
    builder = Builder(**more)
    builder.append(1, None, b"value")
    return bytes(builder.build())


def produce(name: str, records: bytes, **more: Any) -> dict[str, Any]:
    return {
        "acks": 1,
        "timeout_ms": 1000,
        "topic_data": [{"name": name, "partition_data": [{"index": 0, "records": records}]}],
        **more,
    }


def fetch(partition: dict[str, Any], **more: Any) -> dict[str, Any]:
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]
    return {"min_bytes": 0, "topics": [{**partition, "partitions": partitions}], **more}


def _partitions(name: str, **more: Any) -> list[dict[str, Any]]:
    return [{"name": name, "partitions": [{"partition_index": 0, **more}]}]


def _member(name: str, **more: Any) -> dict[str, Any]:
    return {"group_id": name, "member_id": "m", **more}


def _commit(name: str) -> list[dict[str, Any]]:
    return _partitions(name, committed_offset=0, committed_metadata="")


def _transaction(name: str, **more: Any) -> dict[str, Any]:
    return {"transactional_id": name, "producer_id": 1, "producer_epoch": 0, **more}


def _resource(kind: ResourceType, **config: Any) -> Callable[[str], dict[str, Any]]:
    """Returns a function to the fields of a request that describes or alters settings of such a resource."""

    def fields(name: str) -> dict[str, Any]:
        named = "1" if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) else name
        resource = {"resource_type": kind, "resource_name": named}
        if config:
            return {"resources": [{**resource, "configs": [config]}], "validate_only": True}
        return {"resources": [{**resource, "configuration_keys": None}]}

    return fields


_TXNS = CoordinatorType.TRANSACTION
_BY_NAME = {"topic_id": p.ZERO_UUID}
_SET = {"config_operation": ConfigOperation.SET}
_TOPIC_KEY = {"name": "retention.ms", "value": "1000"}
_GROUP_KEY = {"name": "consumer.session.timeout.ms", "value": "50000"}
_BROKER_KEY = {"name": "log.retention.ms", "value": "1000"}
_LOGGER = {"name": "pybroker.net.peer", "value": "INFO"}
_KINDS = ResourceType

CASES = (
    Case(p.Produce, 9, lambda n: produce(n, batch()), (WRITE_TOPIC,), TOPIC),
    Case(
        p.Produce, 12,
        lambda n: produce(n, batch(producer_id=1, producer_epoch=0, base_sequence=0, transactional=True),
                          transactional_id=n),
        (WRITE_TRANSACTIONAL_ID, WRITE_TOPIC), TXN, None,
    ),
    Case(p.Fetch, 12, lambda n: fetch({"topic": n}), (READ_TOPIC,), TOPIC),
    Case(
        p.ListOffsets, 7, lambda n: {"replica_id": -1, "topics": _partitions(n, timestamp=-1)},
        (DESCRIBE_TOPIC,), TOPIC,
    ),
    Case(
        p.Metadata, 9, lambda n: {"topics": [{"name": n}], "allow_auto_topic_creation": False},
        (DESCRIBE_TOPIC,), TOPIC,
    ),
    Case(p.Metadata, 0, lambda n: {"topics": [{"name": n}]}, (DESCRIBE_TOPIC,), TOPIC),
    Case(p.OffsetCommit, 8, lambda n: {"group_id": n, "topics": _commit(n)}, (READ_GROUP, READ_TOPIC), GROUP),
    Case(
        p.OffsetFetch, 7, lambda n: {"group_id": n, "topics": [{"name": n, "partition_indexes": [0]}]},
        (DESCRIBE_GROUP, DESCRIBE_TOPIC), GROUP,
    ),
    Case(
        p.OffsetFetch, 1, lambda n: {"group_id": n, "topics": [{"name": n, "partition_indexes": [0]}]},
        (DESCRIBE_GROUP, DESCRIBE_TOPIC), GROUP,
    ),
    Case(
        p.OffsetFetch, 8,
        lambda n: {"groups": [{"group_id": n, "topics": [{"name": n, **_BY_NAME, "partition_indexes": [0]}]}]},
        (DESCRIBE_GROUP, DESCRIBE_TOPIC), GROUP,
    ),
    Case(p.FindCoordinator, 3, lambda n: {"key": n}, (DESCRIBE_GROUP,), GROUP),
    Case(
        p.FindCoordinator, 4, lambda n: {"key_type": _TXNS, "coordinator_keys": [n]},
        (DESCRIBE_TRANSACTIONAL_ID,), TXN,
    ),
    Case(
        p.JoinGroup, 5,
        lambda n: {
            "group_id": n, "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        },
        (READ_GROUP,), GROUP, {p.errors.MemberIdRequired.code},
    ),
    Case(p.Heartbeat, 4, lambda n: _member(n, generation_id=1), (READ_GROUP,), GROUP, {p.errors.UnknownMemberId.code}),
    Case(
        p.LeaveGroup, 3, lambda n: {"group_id": n, "members": [{"member_id": "m"}]},
        (READ_GROUP,), GROUP, {p.errors.UnknownMemberId.code},
    ),
    Case(p.SyncGroup, 4, lambda n: _member(n, generation_id=1), (READ_GROUP,), GROUP, {p.errors.UnknownMemberId.code}),
    Case(p.DescribeGroups, 5, lambda n: {"groups": [n]}, (DESCRIBE_GROUP,), GROUP),
    Case(
        p.ConsumerGroupDescribe, 1, lambda n: {"group_ids": [n]},
        (DESCRIBE_GROUP,), GROUP, {p.errors.GroupIdNotFound.code},
    ),
    Case(
        p.ConsumerGroupHeartbeat, 1,
        lambda n: _member(
            n, member_epoch=0, rebalance_timeout_ms=1000, subscribed_topic_names=[n], topic_partitions=[]
        ),
        (READ_GROUP, DESCRIBE_TOPIC), GROUP, None,
    ),
    *(
        Case(
            p.CreateTopics, 7,
            lambda n: {"topics": [{"name": n, "num_partitions": 1, "replication_factor": 1}], "validate_only": True},
            (right,), TOPIC, {p.errors.TopicAlreadyExists.code},
        )
        for right in (CREATE_TOPIC, CREATE_CLUSTER)
    ),
    *(
        Case(
            p.DeleteTopics, 5, lambda n: {"topic_names": [n]},
            (right,), TOPIC, {p.errors.UnknownTopicOrPartition.code}, ABSENT,
        )
        for right in (DELETE_TOPIC, DELETE_CLUSTER)
    ),
    Case(
        p.DeleteRecords, 2, lambda n: {"topics": _partitions(n, offset=0), "timeout_ms": 1000},
        (DELETE_TOPIC,), TOPIC,
    ),
    Case(
        p.InitProducerId, 4,
        lambda n: {
            "transactional_id": n, "transaction_timeout_ms": 1000, "producer_id": -1, "producer_epoch": -1
        },
        (WRITE_TRANSACTIONAL_ID,), TXN,
    ),
    *(
        Case(
            p.InitProducerId, 4, lambda n: {"transactional_id": None, "producer_id": -1, "producer_epoch": -1},
            (right,), CLUSTER,
        )
        for right in (IDEMPOTENT_WRITE, WRITE_TOPIC)
    ),
    *(
        Case(
            p.OffsetForLeaderEpoch, 4,
            lambda n: {"topics": [{"topic": n, "partitions": [{"partition": 0, "leader_epoch": 0}]}]},
            (right,), TOPIC,
        )
        for right in (DESCRIBE_TOPIC, CLUSTER_ACTION)
    ),
    Case(
        p.AddPartitionsToTxn, 3,
        lambda n: {
            "v3_and_below_transactional_id": n, "v3_and_below_producer_id": 1,
            "v3_and_below_topics": [{"name": n, "partitions": [0]}],
        },
        (WRITE_TRANSACTIONAL_ID, WRITE_TOPIC), TXN, None,
    ),
    Case(
        p.AddPartitionsToTxn, 4,
        lambda n: {"transactions": [_transaction(n, verify_only=True, topics=[{"name": n, "partitions": [0]}])]},
        (CLUSTER_ACTION,), CLUSTER, None,
    ),
    Case(p.AddOffsetsToTxn, 3, lambda n: _transaction(n, group_id=n), (WRITE_TRANSACTIONAL_ID, READ_GROUP), TXN, None),
    Case(p.EndTxn, 3, lambda n: _transaction(n, committed=True), (WRITE_TRANSACTIONAL_ID,), TXN, None),
    *(
        Case(
            p.WriteTxnMarkers, 1,
            lambda n: {"markers": [{"producer_id": -1, "topics": [{"name": n, "partition_indexes": [0]}]}]},
            (right,), CLUSTER, {p.errors.UnknownServerError.code},
        )
        for right in (CLUSTER_ACTION, ALTER_CLUSTER)
    ),
    Case(
        p.TxnOffsetCommit, 3, lambda n: _transaction(n, group_id=n, topics=_commit(n)),
        (WRITE_TRANSACTIONAL_ID, READ_GROUP, READ_TOPIC), TXN, None,
    ),
    Case(p.DescribeConfigs, 4, _resource(_KINDS.TOPIC), (DESCRIBE_CONFIGS_TOPIC,), TOPIC),
    Case(p.DescribeConfigs, 4, _resource(_KINDS.GROUP), (DESCRIBE_CONFIGS_GROUP,), GROUP),
    Case(p.DescribeConfigs, 4, _resource(_KINDS.BROKER), (DESCRIBE_CONFIGS_CLUSTER,), CLUSTER),
    Case(p.DescribeConfigs, 4, _resource(_KINDS.BROKER_LOGGER), (DESCRIBE_CONFIGS_CLUSTER,), CLUSTER),
    Case(p.AlterConfigs, 2, _resource(_KINDS.TOPIC, **_TOPIC_KEY), (ALTER_CONFIGS_TOPIC,), TOPIC),
    Case(p.AlterConfigs, 2, _resource(_KINDS.GROUP, **_GROUP_KEY), (ALTER_CONFIGS_GROUP,), GROUP),
    Case(p.AlterConfigs, 2, _resource(_KINDS.BROKER, **_BROKER_KEY), (ALTER_CONFIGS_CLUSTER,), CLUSTER),
    Case(p.IncrementalAlterConfigs, 1, _resource(_KINDS.TOPIC, **_TOPIC_KEY, **_SET), (ALTER_CONFIGS_TOPIC,), TOPIC),
    Case(p.IncrementalAlterConfigs, 1, _resource(_KINDS.GROUP, **_GROUP_KEY, **_SET), (ALTER_CONFIGS_GROUP,), GROUP),
    Case(
        p.IncrementalAlterConfigs, 1, _resource(_KINDS.BROKER, **_BROKER_KEY, **_SET),
        (ALTER_CONFIGS_CLUSTER,), CLUSTER,
    ),
    Case(
        p.IncrementalAlterConfigs, 1, _resource(_KINDS.BROKER_LOGGER, **_LOGGER, **_SET),
        (ALTER_CONFIGS_CLUSTER,), CLUSTER,
    ),
    Case(
        p.AlterReplicaLogDirs, 2,
        lambda n: {"dirs": [{"path": "/nowhere", "topics": [{"name": n, "partitions": [0]}]}]},
        (ALTER_CLUSTER,), CLUSTER, {p.errors.LogDirNotFound.code},
    ),
    Case(p.DescribeAcls, 3, lambda n: _ANY_ACL, (DESCRIBE_CLUSTER,), CLUSTER),
    Case(
        p.CreateAcls, 3,
        lambda n: {"creations": [
            {"resource_type": AclResourceType.TOPIC, "resource_name": n, "principal": "User:a", "host": "*",
             "operation": 3, "permission_type": 3}
        ]},
        (ALTER_CLUSTER,), CLUSTER,
    ),
    Case(p.DeleteAcls, 3, lambda n: {"filters": [_ANY_ACL]}, (ALTER_CLUSTER,), CLUSTER),
    Case(p.DescribeClientQuotas, 1, lambda n: {"components": []}, (DESCRIBE_CONFIGS_CLUSTER,), CLUSTER),
    Case(
        p.AlterClientQuotas, 1,
        lambda n: {"entries": [
            {"entity": [{"entity_type": "user", "entity_name": n}],
             "ops": [{"key": "producer_byte_rate", "value": 1.0, "remove": False}]}
        ]},
        (ALTER_CONFIGS_CLUSTER,), CLUSTER,
    ),
    Case(p.DescribeLogDirs, 4, lambda n: {"topics": None}, (DESCRIBE_CLUSTER,), CLUSTER),
    Case(
        p.CreatePartitions, 3,
        lambda n: {"topics": [{"name": n, "count": 2, "assignments": None}], "validate_only": True},
        (ALTER_TOPIC,), TOPIC,
    ),
    Case(
        p.DeleteGroups, 2, lambda n: {"groups_names": [n]},
        (DELETE_GROUP,), GROUP, {p.errors.GroupIdNotFound.code}, ABSENT,
    ),
    *(
        Case(
            p.ElectLeaders, version, lambda n: {"topic_partitions": [{"topic": n, "partitions": [0]}]},
            (ALTER_CLUSTER,), CLUSTER, {p.errors.ElectionNotNeeded.code},
        )
        for version in (0, 2)
    ),
    Case(
        p.AlterPartitionReassignments, 0,
        lambda n: {"topics": [{"name": n, "partitions": [{"partition_index": 0, "replicas": [1]}]}]},
        (ALTER_CLUSTER,), CLUSTER,
    ),
    Case(p.ListPartitionReassignments, 0, lambda n: {"topics": None}, (DESCRIBE_CLUSTER,), CLUSTER),
    Case(
        p.OffsetDelete, 0, lambda n: {"group_id": n, "topics": _partitions(n)},
        (DELETE_GROUP, READ_TOPIC), GROUP, {p.errors.GroupIdNotFound.code}, ABSENT,
    ),
    Case(p.DescribeUserScramCredentials, 0, lambda n: {"users": None}, (DESCRIBE_CLUSTER,), CLUSTER),
    Case(
        p.AlterUserScramCredentials, 0, lambda n: {"deletions": [{"name": n, "mechanism": 1}]},
        (ALTER_CLUSTER,), CLUSTER, {p.errors.ResourceNotFound.code},
    ),
    Case(p.AlterPartition, 2, lambda n: {"broker_id": 1}, (CLUSTER_ACTION,), CLUSTER, {CLUSTER}),
    Case(p.UpdateFeatures, 1, lambda n: {}, (ALTER_CLUSTER,), CLUSTER, None),
    Case(
        p.Envelope, 0, lambda n: {"request_data": b"", "client_host_address": b""},
        (CLUSTER_ACTION,), CLUSTER, {CLUSTER},
    ),
    Case(p.DescribeProducers, 0, lambda n: {"topics": [{"name": n, "partition_indexes": [0]}]}, (READ_TOPIC,), TOPIC),
    Case(p.DescribeTransactions, 0, lambda n: {"transactional_ids": [n]}, (DESCRIBE_TRANSACTIONAL_ID,), TXN),
    Case(p.ListConfigResources, 1, lambda n: {}, (DESCRIBE_CONFIGS_CLUSTER,), CLUSTER),
    Case(p.DescribeTopicPartitions, 0, lambda n: {"topics": [{"name": n}]}, (DESCRIBE_TOPIC,), TOPIC),
)
