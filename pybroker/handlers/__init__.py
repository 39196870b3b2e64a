"""The APIs that this broker serves, one row per API.

    api: handler        or        api: (handler, min_version, max_version)

ApiVersions is derived from this table. A row gives versions only if we do not serve all versions of
the API's schema.

A handler is ``handle(request, call)``. It returns the response, or None if the request wants none
(Produce with acks=0). If it has to wait, it returns an awaitable of either: an ``asyncio.Future``, or a
coroutine (``async def handle``). A coroutine runs at once up to its first real wait, before any
other request is read and outside a task. So the views of ``records`` in the request are valid until
then.

Handlers turn domain errors into codes, per partition or at the top, wherever the response has a field for
them. If a ``KafkaError`` leaves the handler, the response has no such field, and the connection is closed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, cast

from pybroker.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
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
from pybroker.handlers.common.forwarding import forwarded
from pybroker.handlers.common.slices import SPLITS, WHOLE_UNITS, sliced
from pyclient.protocol import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    AlterConfigs,
    AlterPartition,
    AlterPartitionReassignments,
    AlterReplicaLogDirs,
    ApiVersions,
    ConsumerGroupDescribe,
    ConsumerGroupHeartbeat,
    CreatePartitions,
    CreateTopics,
    DeleteGroups,
    DeleteRecords,
    DeleteTopics,
    DescribeCluster,
    DescribeConfigs,
    DescribeGroups,
    DescribeLogDirs,
    DescribeProducers,
    DescribeTopicPartitions,
    DescribeTransactions,
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

MANY_UNITS: Final = 300_000


class Row(NamedTuple):
    """One API as it is served."""

    api: Api
    handle: Handler
    min_version: int
    max_version: int
    advertised_min: int
    most_units: int
    """What a request may hold (``net.apart``)."""


SERVED: dict[Api, Handler | tuple[Handler, int, int]] = {
    Produce: produce.handle,
    Fetch: fetch.handle,
    ListOffsets: list_offsets.handle,
    Metadata: metadata.handle,
    OffsetCommit: offset_commit.handle,
    OffsetFetch: offset_fetch.handle,
    FindCoordinator: find_coordinator.handle,
    JoinGroup: join_group.handle,
    Heartbeat: heartbeat.handle,
    LeaveGroup: leave_group.handle,
    SyncGroup: sync_group.handle,
    DescribeGroups: describe_groups.handle,
    ListGroups: list_groups.handle,
    SaslHandshake: sasl_handshake.handle,
    SaslAuthenticate: sasl_authenticate.handle,
    ApiVersions: api_versions.handle,
    CreateTopics: create_topics.handle,
    DeleteTopics: delete_topics.handle,
    DeleteRecords: delete_records.handle,
    InitProducerId: init_producer_id.handle,
    TxnOffsetCommit: txn_offset_commit.handle,
    OffsetForLeaderEpoch: offset_for_leader_epoch.handle,
    AddPartitionsToTxn: add_partitions_to_txn.handle,
    AddOffsetsToTxn: add_offsets_to_txn.handle,
    EndTxn: end_txn.handle,
    WriteTxnMarkers: write_txn_markers.handle,
    DescribeConfigs: describe_configs.handle,
    AlterConfigs: alter_configs.handle,
    AlterReplicaLogDirs: alter_replica_log_dirs.handle,
    DescribeLogDirs: describe_log_dirs.handle,
    CreatePartitions: create_partitions.handle,
    DeleteGroups: delete_groups.handle,
    ElectLeaders: elect_leaders.handle,
    IncrementalAlterConfigs: incremental_alter_configs.handle,
    AlterPartitionReassignments: alter_partition_reassignments.handle,
    ListPartitionReassignments: list_partition_reassignments.handle,
    OffsetDelete: offset_delete.handle,
    UpdateFeatures: update_features.handle,
    DescribeCluster: describe_cluster.handle,
    DescribeProducers: describe_producers.handle,
    DescribeTransactions: describe_transactions.handle,
    ListTransactions: list_transactions.handle,
    ConsumerGroupHeartbeat: consumer_group_heartbeat.handle,
    ConsumerGroupDescribe: consumer_group_describe.handle,
    ListConfigResources: list_config_resources.handle,
    DescribeTopicPartitions: describe_topic_partitions.handle,
}

CONTROLLED: dict[Api, Handler] = {
    CreateTopics: create_topics.handle,
    DeleteTopics: delete_topics.handle,
    CreatePartitions: create_partitions.handle,
    AlterConfigs: alter_configs.handle,
    IncrementalAlterConfigs: incremental_alter_configs.handle,
    ElectLeaders: elect_leaders.handle,
    AlterPartitionReassignments: alter_partition_reassignments.handle,
    UpdateFeatures: update_features.handle,
}
"""What the controller does; other brokers hand it on."""

CONTROLLED_IN_TURNS = {api: sliced(handle, SPLITS.get(api, ())) for api, handle in CONTROLLED.items()}
"""As the controller does it for another broker."""

SERVED |= {api: forwarded(api, handle) for api, handle in CONTROLLED.items()}
SERVED[IncrementalAlterConfigs] = incremental_alter_configs.handle_anywhere
SERVED |= {api: sliced(cast(Handler, SERVED[api]), splits) for api, splits in SPLITS.items()}

UNITS: dict[Api, int] = {
    **dict.fromkeys(SPLITS, MANY_UNITS),
    **dict.fromkeys((Produce, Fetch, AlterPartition, AlterReplicaLogDirs, DescribeProducers, ListOffsets), MANY_UNITS),
    **dict.fromkeys((ListPartitionReassignments, Metadata, OffsetForLeaderEpoch, DescribeGroups), MANY_UNITS),
    **dict.fromkeys((ConsumerGroupDescribe, DescribeTransactions, FindCoordinator, DeleteGroups), MANY_UNITS),
    **dict.fromkeys((AddPartitionsToTxn, LeaveGroup, OffsetFetch, OffsetCommit, OffsetDelete), MANY_UNITS),
    **dict.fromkeys((TxnOffsetCommit, WriteTxnMarkers, DeleteRecords), MANY_UNITS),
    DescribeConfigs: 50_000,
}
"""What requests may hold that are served in several turns, or come from brokers: 60,000 partitions or more. A few bytes
of DescribeConfigs are answered by a kilobyte.
"""

BETWEEN_BROKERS: dict[Api, Handler | tuple[Handler, int, int]] = {
    AlterPartition: alter_partition.handle,
    Envelope: envelope.handle,
}
"""What only brokers of this cluster may ask: served, but not advertised."""


def rows(table: Mapping[Api, Handler | tuple[Handler, int, int]] = SERVED) -> list[Row]:
    """``SERVED``, or another table, with the version ranges filled in, by API key."""
    served = []
    for api, row in table.items():
        handle, low, high = row if isinstance(row, tuple) else (row, api.min_version, api.max_version)
        advertised = api.advertised_min if low == api.min_version else low
        served.append(Row(api, handle, low, high, advertised, UNITS.get(api, WHOLE_UNITS)))
    return sorted(served, key=lambda row: row.api.key)
