"""Consumer groups of both protocols: list, describe, delete; their offsets and members.

Each request about a group goes to its coordinator; ListGroups goes to every broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from pyclient.admin.base import Base, by_topic, names
from pyclient.admin.describing import describe_classic, describe_consumer
from pyclient.admin.fan_out import Ask, Coordinators, fan_out
from pyclient.admin.needing import needing
from pyclient.admin.results import Results
from pyclient.admin.types import GroupDescription, GroupListing, MemberToRemove
from pyclient.core.kinds import GROUP
from pyclient.core.nodes.connection import Request
from pyclient.errors import KafkaError, UnsupportedByBroker, of_code
from pyclient.errors import check as check_code
from pyclient.offset_and_metadata import OffsetAndMetadata
from pyclient.protocol import (
    DeleteGroups,
    LeaveGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
)
from pyclient.protocol.acls import AclOperation
from pyclient.protocol.apis import Api
from pyclient.topic_partition import TopicPartition, partition_of

R = TypeVar("R")
Offsets = dict[TopicPartition, OffsetAndMetadata]

WITH_NAMES = 9
"""The last version of OffsetCommit and OffsetFetch with topic names. Later ones have topic ids, for members of KIP-848.
"""

BATCHED = 8
"""The first version of OffsetFetch for several groups."""


class Groups(Base):
    """The part of the admin client for groups."""

    async def list_groups(
        self,
        *,
        states: Collection[str] = (),
        types: Collection[str] = (),
        protocol_types: Collection[str] = (),
        timeout: float | None = None,
    ) -> list[GroupListing]:
        """Returns the groups of the cluster, in the order of their names. Filters use the words of the listing
        (``Stable``, ``Classic``), in upper or lower case. Raises an error if a broker cannot list its groups.
        """
        deadline = self._deadline(timeout)

        def message(version: int) -> ListGroups.Request:
            request = ListGroups.Request()
            if version >= 4:
                request.states_filter = list(states)
            if version >= 5:
                request.types_filter = list(types)
            return request

        async def attempt() -> list[GroupListing]:
            brokers = await self._brokers()
            answers = await asyncio.gather(
                *(self._client.send(node, ListGroups, message) for node in brokers)
            )
            for answer in answers:
                check_code(answer.error_code)
            return [
                GroupListing(
                    row.group_id, row.protocol_type, row.group_state, row.group_type.capitalize()
                )
                for answer in answers
                for row in answer.groups
            ]

        found = await self._client.retrying(attempt, deadline=deadline)
        return sorted(
            row
            for row in set(found)
            if _passes(row.state, states)
            and _passes(row.type, types)
            and (not protocol_types or row.protocol_type in protocol_types)
        )

    async def list_consumer_groups(
        self,
        *,
        states: Collection[str] = (),
        types: Collection[str] = (),
        timeout: float | None = None,
    ) -> list[GroupListing]:
        """Returns the consumer groups, and groups that only have offsets (no protocol type)."""
        return await self.list_groups(
            states=states, types=types, protocol_types=("consumer", ""), timeout=timeout
        )

    @needing(group=AclOperation.DESCRIBE, topic=AclOperation.DESCRIBE)
    async def describe_consumer_groups(
        self, groups: str | Iterable[str], *, timeout: float | None = None, check: bool = True
    ) -> Results[str, GroupDescription]:
        """Describes groups of both protocols and their members. Raises the first error, for example GroupIdNotFound,
        unless ``check=False``.
        """

        async def ask(node: int, keys: list[str]) -> dict[str, GroupDescription | KafkaError]:
            new = await describe_consumer(self._client, node, keys)
            old = [key for key in keys if key not in new]
            return {**new, **(await describe_classic(self._client, node, old) if old else {})}

        return await self._at_coordinators(groups, ask, timeout, check)

    @needing(group=AclOperation.DELETE)
    async def delete_consumer_groups(
        self, groups: str | Iterable[str], *, timeout: float | None = None, check: bool = True
    ) -> Results[str, None]:
        """Deletes groups without members, and their offsets. Raises the first error, for example NonEmptyGroup, unless
        ``check=False``.
        """

        async def ask(node: int, keys: list[str]) -> dict[str, KafkaError | None]:
            message = DeleteGroups.Request(groups_names=keys)
            response = await self._client.send(node, DeleteGroups, message)
            return {row.group_id: of_code(row.error_code) for row in response.results}

        return await self._at_coordinators(groups, ask, timeout, check)

    @needing(group=AclOperation.READ)
    async def remove_members_from_consumer_group(
        self,
        group: str,
        members: Iterable[MemberToRemove] | None = None,
        *,
        reason: str = "",
        timeout: float | None = None,
        check: bool = True,
    ) -> Results[MemberToRemove, None]:
        """Removes members from a classic group, by default all (KIP-345, KIP-571). Raises the first error unless
        ``check=False``.
        """
        if members is None:
            found = (await self.describe_consumer_groups(group, timeout=timeout))[group]
            members = [
                MemberToRemove(each.group_instance_id)
                if each.group_instance_id
                else MemberToRemove(None, each.member_id)
                for each in found.members
            ]
        wanted = list(members)
        results: Results[MemberToRemove, None] = Results()
        if not wanted:
            return results
        identity = LeaveGroup.Request.MemberIdentity
        message = LeaveGroup.Request(
            group_id=group,
            members=[
                identity(
                    member_id=each.member_id,
                    group_instance_id=each.group_instance_id,
                    reason=f"removed by an administrator{': ' if reason else ''}{reason}",
                )
                for each in wanted
            ],
        )
        response = await self._at_coordinator(group, LeaveGroup, message, timeout)
        for each, row in zip(wanted, response.members, strict=True):
            results.put(each, of_code(row.error_code))
        return results.checked(check)

    # -- offsets -----------------------------------------------------------------------------------

    @needing(group=AclOperation.DESCRIBE, topic=AclOperation.DESCRIBE)
    async def list_consumer_group_offsets(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
        timeout: float | None = None,
        check: bool = True,
    ) -> Results[TopicPartition, OffsetAndMetadata]:
        """Returns a group's committed offsets for these partitions, or for all. Partitions without one are left out.
        ``require_stable`` waits for open transactions that commit offsets.
        """
        topics = None if partitions is None else by_topic(partitions)

        def message(version: int) -> OffsetFetch.Request:
            request = _fetch_request([group], topics, version)
            if version >= 7:
                request.require_stable = require_stable
            return request

        def outcome(response: OffsetFetch.Response) -> Results[TopicPartition, OffsetAndMetadata]:
            return _committed(response, group)

        response = await self._at_coordinator(
            group, OffsetFetch, message, timeout, lambda answer: outcome(answer).checked()
        )
        return outcome(response).checked(check)

    @needing(group=AclOperation.DESCRIBE, topic=AclOperation.DESCRIBE)
    async def list_offsets_of_consumer_groups(
        self, groups: Iterable[str], *, timeout: float | None = None, check: bool = True
    ) -> Results[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Returns all committed offsets of many groups, with one request per coordinator (KIP-709), or one per group
        for brokers before Kafka 3.0. Raises the first error unless ``check=False``.
        """

        async def one(node: int, some: list[str]) -> dict[str, Offsets | KafkaError]:
            response = await self._client.send(
                node,
                OffsetFetch,
                lambda version: _fetch_request(some, None, version),
                max_version=WITH_NAMES,
            )
            return {group: _outcome(response, group) for group in some}

        async def ask(node: int, keys: list[str]) -> dict[str, Offsets | KafkaError]:
            batched = self._client.nodes.version(node, OffsetFetch, WITH_NAMES) >= BATCHED
            parts = [keys] if batched else [[key] for key in keys]
            answers = await asyncio.gather(*(one(node, part) for part in parts))
            return {group: each for answer in answers for group, each in answer.items()}

        return await self._at_coordinators(groups, ask, timeout, check)

    @needing(group=AclOperation.READ, topic=AclOperation.READ)
    async def alter_consumer_group_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout: float | None = None,
        check: bool = True,
    ) -> Results[TopicPartition, None]:
        """Commits offsets for a group without members. Raises the first error, for example UnknownMemberId if the
        group has members, unless ``check=False``.
        """
        request = OffsetCommit.Request
        rows = {
            partition_of(tp): each if isinstance(each, OffsetAndMetadata) else OffsetAndMetadata(each)
            for tp, each in offsets.items()
        }
        topics = [
            request.OffsetCommitRequestTopic(
                name=topic,
                partitions=[_committing(number, rows[TopicPartition(topic, number)]) for number in some],
            )
            for topic, some in by_topic(rows).items()
        ]
        response = await self._at_coordinator(
            group,
            OffsetCommit,
            request(group_id=group, topics=topics),
            timeout,
            lambda answer: _outcomes(answer.topics).checked(),
        )
        return _outcomes(response.topics).checked(check)

    @needing(group=AclOperation.DELETE, topic=AclOperation.READ)
    async def delete_consumer_group_offsets(
        self,
        group: str,
        partitions: Iterable[TopicPartition],
        *,
        timeout: float | None = None,
        check: bool = True,
    ) -> Results[TopicPartition, None]:
        """Deletes committed offsets of topics to which the group is not subscribed. Raises the first error, for
        example GroupSubscribedToTopic, unless ``check=False``.
        """
        request = OffsetDelete.Request
        topics = [
            request.OffsetDeleteRequestTopic(
                name=topic,
                partitions=[
                    request.OffsetDeleteRequestPartition(partition_index=number) for number in some
                ],
            )
            for topic, some in by_topic(partitions).items()
        ]
        message = request(group_id=group, topics=topics)
        response = await self._at_coordinator(
            group, OffsetDelete, message, timeout, lambda answer: check_code(answer.error_code)
        )
        check_code(response.error_code)
        return _outcomes(response.topics).checked(check)

    # -- coordinators ------------------------------------------------------------------------------

    async def _at_coordinators(
        self, groups: str | Iterable[str], ask: Ask[str, R], timeout: float | None, check: bool
    ) -> Results[str, R]:
        """Asks about each group at its coordinator."""
        places = Coordinators(self._client, GROUP)
        results = await fan_out(
            self._client, names(groups), places, ask, self._deadline(timeout)
        )
        return results.checked(check)

    async def _at_coordinator(
        self,
        group: str,
        api: Api,
        message: Request,
        timeout: float | None,
        verdict: Callable[[Any], object] = bool,
    ) -> Any:
        """Returns the response of a group's coordinator.

        Repeats the request while ``verdict(response)`` raises a retriable error. The caller handles other errors in it.
        """
        places = Coordinators(self._client, GROUP)

        async def attempt() -> Any:
            place = (await places([group]))[group]
            if isinstance(place, KafkaError):
                raise place
            response = await self._client.send(place, api, message, max_version=WITH_NAMES)
            if getattr(response, "error_code", 0):
                check_code(response.error_code)
            _raise_retriable(verdict, response)
            return response

        return await self._client.retrying(attempt, deadline=self._deadline(timeout))


def _raise_retriable(verdict: Callable[[Any], object], response: Any) -> None:
    try:
        verdict(response)
    except KafkaError as error:
        if error.retriable:
            raise


def _passes(value: str, wanted: Collection[str]) -> bool:
    """Returns whether the value passes the filter, for brokers too old to filter."""
    return not wanted or not value or value.lower() in {each.lower() for each in wanted}


def _fetch_request(
    groups: list[str], topics: dict[str, list[int]] | None, version: int
) -> OffsetFetch.Request:
    """Returns a request for these topics (None: all) of each group; before version 8, of one group."""
    request = OffsetFetch.Request
    if version < BATCHED:
        if len(groups) > 1:
            raise UnsupportedByBroker("the broker is too old: it takes one group per OffsetFetch")
        old = request.OffsetFetchRequestTopic
        rows = [old(name=t, partition_indexes=some) for t, some in (topics or {}).items()]
        return request(group_id=groups[0], topics=None if topics is None else rows)
    new = request.OffsetFetchRequestTopics
    given = [new(name=t, partition_indexes=some) for t, some in (topics or {}).items()]
    wanted = None if topics is None else given
    row = request.OffsetFetchRequestGroup
    return request(groups=[row(group_id=group, topics=wanted) for group in groups])


def _outcome(response: OffsetFetch.Response, group: str) -> Offsets | KafkaError:
    """Returns a group's offsets, or its first error."""
    try:
        return dict(_committed(response, group).checked())
    except KafkaError as error:
        return error


def _committed(
    response: OffsetFetch.Response, group: str
) -> Results[TopicPartition, OffsetAndMetadata]:
    """Returns the offsets in a response of any version; raises the group's error."""
    found: list[Any] = [row for row in response.groups if row.group_id == group] or [response]
    for part in found:
        check_code(part.error_code, f"group {group}" if part.error_code else None)
    results: Results[TopicPartition, OffsetAndMetadata] = Results()
    for topic in (topic for part in found for topic in part.topics):
        for row in topic.partitions:
            key = TopicPartition(topic.name, row.partition_index)
            error = of_code(row.error_code)
            if error is not None:
                results.put(key, error)
            elif row.committed_offset >= 0:
                epoch = row.committed_leader_epoch
                results[key] = OffsetAndMetadata(row.committed_offset, epoch, row.metadata or "")
    return results


def _committing(
    number: int, offset: OffsetAndMetadata
) -> OffsetCommit.Request.OffsetCommitRequestPartition:
    return OffsetCommit.Request.OffsetCommitRequestPartition(
        partition_index=number,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def _outcomes(topics: Iterable[Any]) -> Results[TopicPartition, None]:
    """Returns the errors by partition of an OffsetCommit or OffsetDelete response."""
    results: Results[TopicPartition, None] = Results()
    for topic in topics:
        for row in topic.partitions:
            results.put(TopicPartition(topic.name, row.partition_index), of_code(row.error_code))
    return results
