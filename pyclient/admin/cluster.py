"""The cluster: brokers, APIs, features, log dirs, leaders and replicas of partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from pyclient.admin.base import Base, by_topic
from pyclient.admin.needing import needing
from pyclient.admin.results import Results
from pyclient.admin.types import (
    BrokerDescription,
    ClusterDescription,
    Election,
    FeatureRange,
    Features,
    LogDirDescription,
    Reassignment,
    ReplicaInfo,
    UpgradeType,
    VersionRange,
)
from pyclient.core.nodes.transport import SOFTWARE
from pyclient.errors import UnsupportedByBroker, of_code
from pyclient.errors import check as check_code
from pyclient.protocol import (
    AlterPartitionReassignments,
    AlterReplicaLogDirs,
    ApiVersions,
    DescribeCluster,
    DescribeLogDirs,
    ElectLeaders,
    ListPartitionReassignments,
    UpdateFeatures,
)
from pyclient.protocol.acls import AclOperation
from pyclient.protocol.apis import Api, by_key
from pyclient.topic_partition import TopicPartition, by_partition


class ClusterAdmin(Base):
    """The part of the admin client for the cluster as a whole."""

    async def describe_cluster(
        self, *, include_fenced: bool = False, timeout: float | None = None
    ) -> ClusterDescription:
        """Returns the cluster's id, controller and brokers. ``include_fenced`` adds brokers that are registered but
        not in service (KIP-1073); older brokers cause UnsupportedByBroker.
        """
        deadline = self._deadline(timeout)

        def message(version: int) -> DescribeCluster.Request:
            if include_fenced and version < 2:
                raise UnsupportedByBroker("the broker is too old to list fenced brokers")
            return DescribeCluster.Request(include_fenced_brokers=include_fenced)

        try:
            response = await self._any(DescribeCluster, message, deadline)
        except UnsupportedByBroker:
            if include_fenced:
                raise
            return await self._describe_by_metadata(deadline)
        check_code(response.error_code, response.error_message)
        rows = sorted(
            BrokerDescription(row.broker_id, row.host, row.port, row.rack, row.is_fenced)
            for row in response.brokers
        )
        return ClusterDescription(response.cluster_id, response.controller_id, tuple(rows))

    async def _describe_by_metadata(self, deadline: float) -> ClusterDescription:
        """Describes a cluster of brokers before Kafka 2.8."""
        await self._metadata([], deadline)
        cluster = self._client.cluster
        rows = [BrokerDescription(*broker) for broker in cluster.brokers.values()]
        return ClusterDescription(cluster.cluster_id, cluster.controller_id, tuple(sorted(rows)))

    async def api_versions(
        self, broker: int | None = None, *, timeout: float | None = None
    ) -> dict[str, VersionRange]:
        """Returns the APIs of a broker (by default of any) by name. An API that this client does not know is
        ``API_<key>``.
        """
        response = await self._ask_versions(broker, self._deadline(timeout))
        return {
            (api.name if (api := by_key(row.api_key)) else f"API_{row.api_key}"): VersionRange(
                row.api_key, row.min_version, row.max_version, _usable(api, row)
            )
            for row in response.api_keys
        }

    async def describe_features(self, *, timeout: float | None = None) -> Features:
        """Returns the finalized features and those that the broker supports (KIP-584)."""
        response = await self._ask_versions(None, self._deadline(timeout))
        finalized = {
            row.name: FeatureRange(row.min_version_level, row.max_version_level)
            for row in response.finalized_features
        }
        supported = {
            row.name: FeatureRange(row.min_version, row.max_version)
            for row in response.supported_features
        }
        return Features(finalized, supported, response.finalized_features_epoch)

    async def _ask_versions(self, broker: int | None, deadline: float) -> ApiVersions.Response:
        name, version = SOFTWARE
        message = ApiVersions.Request(client_software_name=name, client_software_version=version)

        async def attempt() -> ApiVersions.Response:
            node = self._client.nodes.any_node() if broker is None else await self._known(broker)
            response: ApiVersions.Response = await self._client.send(node, ApiVersions, message)
            check_code(response.error_code)
            return response

        return await self._client.retrying(attempt, deadline=deadline)

    @needing(cluster=AclOperation.ALTER)
    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade_type: UpgradeType = UpgradeType.UPGRADE,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Sets features to these levels, all or none; 0 removes a feature. Raises FeatureUpdateFailed and
        InvalidUpdateVersion.
        """
        request = UpdateFeatures.Request
        deadline = self._deadline(timeout)

        def message(version: int) -> UpdateFeatures.Request:
            if version < 1 and (validate_only or upgrade_type is not UpgradeType.UPGRADE):
                raise UnsupportedByBroker("the broker is too old: it can only upgrade features")
            rows = [
                request.FeatureUpdateKey(
                    feature=name, max_version_level=level, upgrade_type=upgrade_type
                )
                for name, level in levels.items()
            ]
            return request(
                timeout_ms=self._left_ms(deadline), feature_updates=rows, validate_only=validate_only
            )

        response = await self._at_controller(UpdateFeatures, message, deadline)
        for row in response.results:
            check_code(row.error_code, row.error_message)

    # -- log dirs ----------------------------------------------------------------------------------

    @needing(cluster=AclOperation.DESCRIBE)
    async def describe_log_dirs(
        self,
        brokers: Iterable[int] | None = None,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[int, Results[str, LogDirDescription]]:
        """Returns the log dirs of brokers (by default of all) by path, with their replicas (of these partitions, or of
        all). An offline dir is among the results' ``errors``.
        """
        deadline = self._deadline(timeout)
        topics = None
        if partitions is not None:
            row = DescribeLogDirs.Request.DescribableLogDirTopic
            topics = [row(topic=t, partitions=some) for t, some in by_topic(partitions).items()]
        message = DescribeLogDirs.Request(topics=topics)
        wanted = None if brokers is None else list(brokers)

        async def one(broker: int) -> Results[str, LogDirDescription]:
            response = await self._client.send(await self._known(broker), DescribeLogDirs, message)
            check_code(response.error_code)
            results: Results[str, LogDirDescription] = Results()
            for each in response.results:
                results.put(each.log_dir, of_code(each.error_code) or _log_dir(each))
            return results

        async def attempt() -> dict[int, Results[str, LogDirDescription]]:
            ids = await self._brokers() if wanted is None else wanted
            return dict(zip(ids, await asyncio.gather(*map(one, ids)), strict=True))

        return await self._client.retrying(attempt, deadline=deadline)

    @needing(cluster=AclOperation.ALTER)
    async def alter_replica_log_dirs(
        self,
        broker: int,
        paths: Mapping[TopicPartition, str],
        *,
        timeout: float | None = None,
        check: bool = True,
    ) -> Results[TopicPartition, None]:
        """Moves replicas of one broker to other log dirs of that broker (KIP-113). Raises the first error unless
        ``check=False``.
        """
        request = AlterReplicaLogDirs.Request
        by_path: dict[str, list[TopicPartition]] = {}
        for key, path in paths.items():
            by_path.setdefault(path, []).append(TopicPartition(*key))
        rows = [
            request.AlterReplicaLogDir(
                path=path,
                topics=[
                    request.AlterReplicaLogDirTopic(name=topic, partitions=some)
                    for topic, some in by_topic(keys).items()
                ],
            )
            for path, keys in by_path.items()
        ]

        deadline = self._deadline(timeout)

        async def attempt() -> AlterReplicaLogDirs.Response:
            node = await self._known(broker)
            response: AlterReplicaLogDirs.Response = await self._client.send(
                node, AlterReplicaLogDirs, request(dirs=rows)
            )
            return response

        response = await self._client.retrying(attempt, deadline=deadline)
        results: Results[TopicPartition, None] = Results()
        for topic in response.results:
            for row in topic.partitions:
                key = TopicPartition(topic.topic_name, row.partition_index)
                results.put(key, of_code(row.error_code))
        return results.checked(check)

    # -- leaders and replicas ----------------------------------------------------------------------

    @needing(cluster=AclOperation.ALTER)
    async def elect_leaders(
        self,
        election: Election = Election.PREFERRED,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout: float | None = None,
        check: bool = True,
    ) -> Results[TopicPartition, None]:
        """Elects leaders for these partitions, or for all that need one. Raises the first error, for example
        ElectionNotNeeded, unless ``check=False``.
        """
        request = ElectLeaders.Request
        deadline = self._deadline(timeout)
        rows = None
        if partitions is not None:
            rows = [
                request.TopicPartitions(topic=topic, partitions=some)
                for topic, some in by_topic(partitions).items()
            ]

        def message(version: int) -> ElectLeaders.Request:
            if version < 1 and election is Election.UNCLEAN:
                raise UnsupportedByBroker("the broker is too old: it elects preferred leaders only")
            built = request(topic_partitions=rows, timeout_ms=self._left_ms(deadline))
            if version >= 1:
                built.election_type = election.value
            return built

        response = await self._at_controller(ElectLeaders, message, deadline)
        results: Results[TopicPartition, None] = Results()
        for topic in response.replica_election_results:
            for row in topic.partition_result:
                key = TopicPartition(topic.topic, row.partition_id)
                results.put(key, of_code(row.error_code, row.error_message))
        return results.checked(check)

    @needing(cluster=AclOperation.ALTER)
    async def alter_partition_reassignments(
        self,
        replicas: Mapping[TopicPartition, Sequence[int] | None],
        *,
        timeout: float | None = None,
        check: bool = True,
    ) -> Results[TopicPartition, None]:
        """Moves partitions to these brokers; None cancels a move in progress (KIP-455). Returns when the moves have
        begun. Raises the first error unless ``check=False``.
        """
        request = AlterPartitionReassignments.Request
        deadline = self._deadline(timeout)
        wanted = by_partition(replicas)

        def row(key: TopicPartition) -> AlterPartitionReassignments.Request.ReassignablePartition:
            ids = wanted[key]
            return request.ReassignablePartition(
                partition_index=key.partition,
                replicas=None if ids is None else list(ids),
            )

        rows = [
            request.ReassignableTopic(
                name=topic, partitions=[row(TopicPartition(topic, number)) for number in some]
            )
            for topic, some in by_topic(wanted).items()
        ]
        message = request(timeout_ms=self._left_ms(deadline), topics=rows)
        response = await self._at_controller(AlterPartitionReassignments, message, deadline)
        results: Results[TopicPartition, None] = Results()
        for topic in response.responses:
            for each in topic.partitions:
                key = TopicPartition(topic.name, each.partition_index)
                results.put(key, of_code(each.error_code, each.error_message))
        return results.checked(check)

    @needing(cluster=AclOperation.DESCRIBE)
    async def list_partition_reassignments(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, Reassignment]:
        """Returns the reassignments in progress, of these partitions or of all."""
        request = ListPartitionReassignments.Request
        deadline = self._deadline(timeout)
        rows = None
        if partitions is not None:
            rows = [
                request.ListPartitionReassignmentsTopics(name=topic, partition_indexes=some)
                for topic, some in by_topic(partitions).items()
            ]
        message = request(timeout_ms=self._left_ms(deadline), topics=rows)
        response = await self._at_controller(ListPartitionReassignments, message, deadline)
        return {
            TopicPartition(topic.name, row.partition_index): Reassignment(
                tuple(row.replicas), tuple(row.adding_replicas), tuple(row.removing_replicas)
            )
            for topic in response.topics
            for row in topic.partitions
        }



def _usable(api: Api | None, row: ApiVersions.Response.ApiVersion) -> int | None:
    """Returns the newest version that both this client and the broker support, None if there is none."""
    if api is None:
        return None
    newest = min(api.max_version, row.max_version)
    return newest if newest >= max(api.min_version, row.min_version) else None


def _log_dir(row: DescribeLogDirs.Response.DescribeLogDirsResult) -> LogDirDescription:
    replicas = {
        TopicPartition(topic.name, each.partition_index): ReplicaInfo(
            each.partition_size, each.offset_lag, each.is_future_key
        )
        for topic in row.topics
        for each in topic.partitions
    }
    return LogDirDescription(
        row.log_dir, replicas, row.total_bytes, row.usable_bytes, row.is_cordoned
    )
