"""The APIs that this broker serves: ``ROWS``, one row per API. ApiVersions is derived from this table.

Each API has a file of its own, named as in Kafka's schemas; so there are as many files as APIs. What several of them
share is in ``common``. Handlers import the rooms below them, and know neither sockets nor files.

A handler is ``handle(request, call)``. It returns the response, or None if the request wants none
(Produce with acks=0). If it has to wait, it returns an awaitable of either: an ``asyncio.Future``, or a
coroutine (``async def handle``). A coroutine runs at once up to its first real wait, before any
other request is read and outside a task. So the views of ``records`` in the request are valid until
then. A request of many items is walked in turns (``common.pacing``), so that it does not block the event loop.

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
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    envelope,
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
    sasl_authenticate,
    sasl_handshake,
    sync_group,
    txn_offset_commit,
    update_features,
    write_txn_markers,
)
from pybroker.handlers.common.call import Call
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
    CreatePartitions,
    CreateTopics,
    DeleteGroups,
    DeleteRecords,
    DeleteTopics,
    DescribeClientQuotas,
    DescribeCluster,
    DescribeConfigs,
    DescribeGroups,
    DescribeLogDirs,
    DescribeProducers,
    DescribeTopicPartitions,
    DescribeTransactions,
    DescribeUserScramCredentials,
    ElectLeaders,
    EndTxn,
    Envelope,
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
    SaslAuthenticate,
    SaslHandshake,
    SyncGroup,
    TxnOffsetCommit,
    UpdateFeatures,
    WriteTxnMarkers,
)
from pyclient.protocol.apis import Api

Handler = Callable[[Any, Call], Any | Awaitable[Any] | None]

FEW_UNITS: Final = 100_000
MANY_UNITS: Final = 300_000
"""60,000 partitions or more."""


class Row(NamedTuple):
    """One API as it is served, in all versions of its schema."""

    api: Api
    handle: Handler
    most_units: int = FEW_UNITS
    """What a request may hold (``net.apart``). Those that are served in turns, or come from brokers, may be longer."""
    controlled: bool = False
    """The controller does it; other brokers hand it on (``forwarding``)."""
    between_brokers: bool = False
    """Only brokers of this cluster may ask it: served, but not advertised."""


ROWS: Final = (
    Row(Produce, produce.handle, most_units=MANY_UNITS),
    Row(Fetch, fetch.handle, most_units=MANY_UNITS),
    Row(ListOffsets, list_offsets.handle, most_units=MANY_UNITS),
    Row(Metadata, metadata.handle, most_units=MANY_UNITS),
    Row(OffsetCommit, offset_commit.handle, most_units=MANY_UNITS),
    Row(OffsetFetch, offset_fetch.handle, most_units=MANY_UNITS),
    Row(FindCoordinator, find_coordinator.handle, most_units=MANY_UNITS),
    Row(JoinGroup, join_group.handle),
    Row(Heartbeat, heartbeat.handle),
    Row(LeaveGroup, leave_group.handle, most_units=MANY_UNITS),
    Row(SyncGroup, sync_group.handle),
    Row(DescribeGroups, describe_groups.handle, most_units=MANY_UNITS),
    Row(ListGroups, list_groups.handle),
    Row(SaslHandshake, sasl_handshake.handle),
    Row(ApiVersions, api_versions.handle),
    Row(CreateTopics, create_topics.handle, most_units=MANY_UNITS, controlled=True),
    Row(DeleteTopics, delete_topics.handle, most_units=MANY_UNITS, controlled=True),
    Row(DeleteRecords, delete_records.handle, most_units=MANY_UNITS),
    Row(InitProducerId, init_producer_id.handle),
    Row(OffsetForLeaderEpoch, offset_for_leader_epoch.handle, most_units=MANY_UNITS),
    Row(AddPartitionsToTxn, add_partitions_to_txn.handle, most_units=MANY_UNITS),
    Row(AddOffsetsToTxn, add_offsets_to_txn.handle),
    Row(EndTxn, end_txn.handle),
    Row(WriteTxnMarkers, write_txn_markers.handle, most_units=MANY_UNITS),
    Row(TxnOffsetCommit, txn_offset_commit.handle, most_units=MANY_UNITS),
    Row(DescribeConfigs, describe_configs.handle, most_units=50_000),  # a few bytes are answered by a kilobyte
    Row(AlterConfigs, alter_configs.handle, most_units=MANY_UNITS, controlled=True),
    Row(AlterReplicaLogDirs, alter_replica_log_dirs.handle, most_units=MANY_UNITS),
    Row(DescribeLogDirs, describe_log_dirs.handle),
    Row(SaslAuthenticate, sasl_authenticate.handle),
    Row(CreatePartitions, create_partitions.handle, most_units=MANY_UNITS, controlled=True),
    Row(DeleteGroups, delete_groups.handle, most_units=MANY_UNITS),
    Row(ElectLeaders, elect_leaders.handle, most_units=MANY_UNITS, controlled=True),
    Row(IncrementalAlterConfigs, incremental_alter_configs.handle, most_units=MANY_UNITS, controlled=True),
    Row(AlterPartitionReassignments, alter_partition_reassignments.handle, most_units=MANY_UNITS, controlled=True),
    Row(ListPartitionReassignments, list_partition_reassignments.handle, most_units=MANY_UNITS),
    Row(OffsetDelete, offset_delete.handle, most_units=MANY_UNITS),
    Row(DescribeClientQuotas, describe_client_quotas.handle),
    Row(AlterClientQuotas, alter_client_quotas.handle, most_units=MANY_UNITS, controlled=True),
    Row(DescribeUserScramCredentials, describe_user_scram_credentials.handle),
    Row(AlterUserScramCredentials, alter_user_scram_credentials.handle, controlled=True),
    Row(AlterPartition, alter_partition.handle, most_units=MANY_UNITS, between_brokers=True),
    Row(UpdateFeatures, update_features.handle, controlled=True),
    Row(Envelope, envelope.handle, between_brokers=True),
    Row(DescribeCluster, describe_cluster.handle),
    Row(DescribeProducers, describe_producers.handle, most_units=MANY_UNITS),
    Row(DescribeTransactions, describe_transactions.handle, most_units=MANY_UNITS),
    Row(ListTransactions, list_transactions.handle),
    Row(ConsumerGroupHeartbeat, consumer_group_heartbeat.handle),
    Row(ConsumerGroupDescribe, consumer_group_describe.handle, most_units=MANY_UNITS),
    Row(ListConfigResources, list_config_resources.handle),
    Row(DescribeTopicPartitions, describe_topic_partitions.handle),
)

CONTROLLED: Final = {row.api: row.handle for row in ROWS if row.controlled}
