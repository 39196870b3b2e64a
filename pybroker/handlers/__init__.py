"""The APIs that this broker serves: ``ROWS``, one row per API. ApiVersions is derived from this table.

Each API has a file of its own, named as in Kafka's schemas; so there are as many files as APIs. What several of them
share is in ``common``. Handlers import the rooms below them, and know neither sockets nor files.

A handler is ``handle(request, call)``. It returns the response, or None if the request wants none
(Produce with acks=0). If it has to wait, it returns an awaitable of either: an ``asyncio.Future``, or a
coroutine (``async def handle``). A coroutine runs at once up to its first real wait, before any
other request is read and outside a task. So the views of ``records`` in the request are valid until
then. A handler walks many items in turns (``common.pacing``), so that it does not block the event loop.

Handlers turn domain errors into codes, per partition or at the top, wherever the response has a field for
them. If a ``KafkaError`` leaves the handler, the response has no such field, and the connection is closed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from pybroker.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_delegation_token,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_delegation_token,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    envelope,
    expire_delegation_token,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    renew_delegation_token,
    sasl_authenticate,
    sasl_handshake,
    sync_group,
    txn_offset_commit,
    update_features,
    write_txn_markers,
)
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.security.rights import (
    ALTER_CLUSTER,
    ALTER_CONFIGS_CLUSTER,
    ALTER_CONFIGS_GROUP,
    ALTER_CONFIGS_TOPIC,
    ALTER_TOPIC,
    CLUSTER_ACTION,
    CREATE_CLUSTER,
    CREATE_TOKENS_USER,
    CREATE_TOPIC,
    DELETE_CLUSTER,
    DELETE_GROUP,
    DELETE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS_CLUSTER,
    DESCRIBE_CONFIGS_GROUP,
    DESCRIBE_CONFIGS_TOPIC,
    DESCRIBE_GROUP,
    DESCRIBE_TOKEN,
    DESCRIBE_TOKENS_USER,
    DESCRIBE_TOPIC,
    DESCRIBE_TRANSACTIONAL_ID,
    IDEMPOTENT_WRITE,
    NOTHING,
    READ_GROUP,
    READ_TOPIC,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    Needs,
    at_top,
    each,
    guarded,
    whole,
)
from pyclient.protocol import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    AlterClientQuotas,
    AlterConfigs,
    AlterPartition,
    AlterPartitionReassignments,
    AlterReplicaLogDirs,
    AlterUserScramCredentials,
    ApiVersions,
    ConsumerGroupDescribe,
    ConsumerGroupHeartbeat,
    CreateAcls,
    CreateDelegationToken,
    CreatePartitions,
    CreateTopics,
    DeleteAcls,
    DeleteGroups,
    DeleteRecords,
    DeleteTopics,
    DescribeAcls,
    DescribeClientQuotas,
    DescribeCluster,
    DescribeConfigs,
    DescribeDelegationToken,
    DescribeGroups,
    DescribeLogDirs,
    DescribeProducers,
    DescribeTopicPartitions,
    DescribeTransactions,
    DescribeUserScramCredentials,
    ElectLeaders,
    EndTxn,
    Envelope,
    ExpireDelegationToken,
    Fetch,
    FindCoordinator,
    Heartbeat,
    IncrementalAlterConfigs,
    InitProducerId,
    JoinGroup,
    LeaveGroup,
    ListConfigResources,
    ListGroups,
    ListOffsets,
    ListPartitionReassignments,
    ListTransactions,
    Metadata,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    OffsetForLeaderEpoch,
    Produce,
    RenewDelegationToken,
    SaslAuthenticate,
    SaslHandshake,
    SyncGroup,
    TxnOffsetCommit,
    UpdateFeatures,
    WriteTxnMarkers,
)
from pyclient.protocol.apis import Api

Handler = Callable[[Any, Call], Any | Awaitable[Any] | None]

FEWEST_UNITS: Final = 20_000
"""The most units of a request that should have few items, such as states of groups. One turn handles all of them."""
FEW_UNITS: Final = 100_000
MANY_UNITS: Final = 300_000
"""The most units of a request with very many items: enough for 60,000 partitions."""


class Row(NamedTuple):
    """One API as it is served, in all versions of its schema."""

    api: Api
    handle: Handler
    needs: Needs
    """The rights that a client needs. It has no default, so that no API is served without a decision on them."""
    most_units: int = FEW_UNITS
    """How many units a request may have (``net.large_messages``). It is more for turns, or between brokers."""
    controlled: bool = False
    """True if only the controller handles the request. Other brokers forward it (``forwarding``)."""
    between_brokers: bool = False
    """Only brokers of this cluster may send it, so it is not advertised."""


_TABLE: Final[tuple[Row, ...]] = (
    Row(Produce, produce.handle, each(WRITE_TOPIC, WRITE_TRANSACTIONAL_ID), most_units=MANY_UNITS),
    Row(Fetch, fetch.handle, each(READ_TOPIC, CLUSTER_ACTION), most_units=MANY_UNITS),
    Row(ListOffsets, list_offsets.handle, each(DESCRIBE_TOPIC), most_units=MANY_UNITS),
    Row(Metadata, metadata.handle, each(DESCRIBE_TOPIC, CREATE_TOPIC, CREATE_CLUSTER), most_units=MANY_UNITS),
    Row(OffsetCommit, offset_commit.handle, each(READ_GROUP, READ_TOPIC), most_units=MANY_UNITS),
    Row(OffsetFetch, offset_fetch.handle, each(DESCRIBE_GROUP, DESCRIBE_TOPIC), most_units=MANY_UNITS),
    Row(FindCoordinator, find_coordinator.handle, each(DESCRIBE_GROUP, DESCRIBE_TRANSACTIONAL_ID),
        most_units=MANY_UNITS),
    Row(JoinGroup, join_group.handle, each(READ_GROUP)),
    Row(Heartbeat, heartbeat.handle, each(READ_GROUP)),
    Row(LeaveGroup, leave_group.handle, each(READ_GROUP), most_units=MANY_UNITS),
    Row(SyncGroup, sync_group.handle, each(READ_GROUP)),
    Row(DescribeGroups, describe_groups.handle, each(DESCRIBE_GROUP), most_units=MANY_UNITS),
    Row(ListGroups, list_groups.handle, each(DESCRIBE_CLUSTER, DESCRIBE_GROUP), most_units=FEWEST_UNITS),
    Row(SaslHandshake, sasl_handshake.handle, NOTHING),
    Row(ApiVersions, api_versions.handle, NOTHING),
    Row(CreateTopics, create_topics.handle, each(CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_CONFIGS_TOPIC),
        most_units=MANY_UNITS, controlled=True),
    Row(DeleteTopics, delete_topics.handle, each(DELETE_CLUSTER, DELETE_TOPIC, DESCRIBE_TOPIC),
        most_units=MANY_UNITS, controlled=True),
    Row(DeleteRecords, delete_records.handle, each(DELETE_TOPIC), most_units=MANY_UNITS),
    Row(InitProducerId, init_producer_id.handle, each(WRITE_TRANSACTIONAL_ID, IDEMPOTENT_WRITE, WRITE_TOPIC)),
    Row(OffsetForLeaderEpoch, offset_for_leader_epoch.handle, each(DESCRIBE_TOPIC, CLUSTER_ACTION),
        most_units=MANY_UNITS),
    Row(AddPartitionsToTxn, add_partitions_to_txn.handle, each(WRITE_TRANSACTIONAL_ID, WRITE_TOPIC, CLUSTER_ACTION),
        most_units=MANY_UNITS),
    Row(AddOffsetsToTxn, add_offsets_to_txn.handle, each(WRITE_TRANSACTIONAL_ID, READ_GROUP)),
    Row(EndTxn, end_txn.handle, each(WRITE_TRANSACTIONAL_ID)),
    Row(WriteTxnMarkers, write_txn_markers.handle, whole(write_txn_markers.refused, CLUSTER_ACTION, ALTER_CLUSTER),
        most_units=MANY_UNITS),
    Row(TxnOffsetCommit, txn_offset_commit.handle, each(WRITE_TRANSACTIONAL_ID, READ_GROUP, READ_TOPIC),
        most_units=MANY_UNITS),
    Row(DescribeAcls, describe_acls.handle, whole(at_top(DescribeAcls), DESCRIBE_CLUSTER)),
    Row(CreateAcls, create_acls.handle, whole(create_acls.refused, ALTER_CLUSTER), controlled=True),
    Row(DeleteAcls, delete_acls.handle, whole(delete_acls.refused, ALTER_CLUSTER), controlled=True),
    Row(DescribeConfigs, describe_configs.handle,
        each(DESCRIBE_CONFIGS_TOPIC, DESCRIBE_CONFIGS_GROUP, DESCRIBE_CONFIGS_CLUSTER),
        most_units=50_000),  # a kilobyte answers a few bytes
    Row(AlterConfigs, alter_configs.handle, each(ALTER_CONFIGS_TOPIC, ALTER_CONFIGS_GROUP, ALTER_CONFIGS_CLUSTER),
        most_units=MANY_UNITS, controlled=True),
    Row(AlterReplicaLogDirs, alter_replica_log_dirs.handle, whole(alter_replica_log_dirs.refused, ALTER_CLUSTER),
        most_units=MANY_UNITS),
    Row(DescribeLogDirs, describe_log_dirs.handle, whole(at_top(DescribeLogDirs), DESCRIBE_CLUSTER)),
    Row(SaslAuthenticate, sasl_authenticate.handle, NOTHING),
    Row(CreatePartitions, create_partitions.handle, each(ALTER_TOPIC), most_units=MANY_UNITS, controlled=True),
    Row(CreateDelegationToken, create_delegation_token.handle, each(CREATE_TOKENS_USER),
        most_units=FEWEST_UNITS, controlled=True),
    Row(RenewDelegationToken, renew_delegation_token.handle, NOTHING, controlled=True),
    Row(ExpireDelegationToken, expire_delegation_token.handle, NOTHING, controlled=True),
    Row(DescribeDelegationToken, describe_delegation_token.handle, each(DESCRIBE_TOKEN, DESCRIBE_TOKENS_USER),
        most_units=FEWEST_UNITS),
    Row(DeleteGroups, delete_groups.handle, each(DELETE_GROUP), most_units=MANY_UNITS),
    Row(ElectLeaders, elect_leaders.handle, whole(elect_leaders.refused, ALTER_CLUSTER),
        most_units=MANY_UNITS, controlled=True),
    Row(IncrementalAlterConfigs, incremental_alter_configs.handle,
        each(ALTER_CONFIGS_TOPIC, ALTER_CONFIGS_GROUP, ALTER_CONFIGS_CLUSTER), most_units=MANY_UNITS, controlled=True),
    Row(AlterPartitionReassignments, alter_partition_reassignments.handle,
        whole(at_top(AlterPartitionReassignments), ALTER_CLUSTER), most_units=MANY_UNITS, controlled=True),
    Row(ListPartitionReassignments, list_partition_reassignments.handle,
        whole(at_top(ListPartitionReassignments), DESCRIBE_CLUSTER), most_units=MANY_UNITS),
    Row(OffsetDelete, offset_delete.handle, each(DELETE_GROUP, READ_TOPIC), most_units=MANY_UNITS),
    Row(DescribeClientQuotas, describe_client_quotas.handle,
        whole(at_top(DescribeClientQuotas), DESCRIBE_CONFIGS_CLUSTER)),
    Row(AlterClientQuotas, alter_client_quotas.handle, whole(alter_client_quotas.refused, ALTER_CONFIGS_CLUSTER),
        most_units=MANY_UNITS, controlled=True),
    Row(DescribeUserScramCredentials, describe_user_scram_credentials.handle,
        whole(at_top(DescribeUserScramCredentials), DESCRIBE_CLUSTER)),
    Row(AlterUserScramCredentials, alter_user_scram_credentials.handle,
        whole(alter_user_scram_credentials.refused, ALTER_CLUSTER), controlled=True),
    Row(AlterPartition, alter_partition.handle, whole(at_top(AlterPartition), CLUSTER_ACTION),
        most_units=MANY_UNITS, between_brokers=True),
    Row(UpdateFeatures, update_features.handle, whole(at_top(UpdateFeatures), ALTER_CLUSTER), controlled=True),
    Row(Envelope, envelope.handle, whole(at_top(Envelope), CLUSTER_ACTION), between_brokers=True),
    Row(DescribeCluster, describe_cluster.handle, each(DESCRIBE_CLUSTER)),
    Row(DescribeProducers, describe_producers.handle, each(READ_TOPIC), most_units=MANY_UNITS),
    Row(DescribeTransactions, describe_transactions.handle, each(DESCRIBE_TRANSACTIONAL_ID, DESCRIBE_TOPIC),
        most_units=MANY_UNITS),
    Row(ListTransactions, list_transactions.handle, each(DESCRIBE_TRANSACTIONAL_ID)),
    Row(ConsumerGroupHeartbeat, consumer_group_heartbeat.handle, each(READ_GROUP, DESCRIBE_TOPIC)),
    Row(ConsumerGroupDescribe, consumer_group_describe.handle, each(DESCRIBE_GROUP, DESCRIBE_TOPIC),
        most_units=MANY_UNITS),
    Row(ListConfigResources, list_config_resources.handle,
        whole(at_top(ListConfigResources), DESCRIBE_CONFIGS_CLUSTER)),
    Row(DescribeTopicPartitions, describe_topic_partitions.handle, each(DESCRIBE_TOPIC)),
)

ROWS: Final[tuple[Row, ...]] = tuple(row._replace(handle=guarded(row.handle, row.needs)) for row in _TABLE)

CONTROLLED: Final = {row.api: row.handle for row in ROWS if row.controlled}
