"""ListOffsets (2), 1-11: finds the offset of a timestamp, or one of the special offsets.

    -1  the end for readers: the last stable offset for read_committed, else the high watermark
    -2  the log start
    -3  the record with the greatest timestamp (v7, KIP-734)
    -4  the log start on the local disk (v8, KIP-405): the log start, since there is no other tier
    -5  the end of the tiered storage (v9, KIP-1005): none
    -6  the first offset that is not uploaded yet (v11, KIP-1023): none

A timestamp finds the first record with this or a later timestamp. If there is none, offset and timestamp are -1,
without an error. Records that a consumer cannot read yet are not found.
"""

from __future__ import annotations

from enum import IntEnum

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import Paced, in_turns, repeated
from pybroker.handlers.common.security.rights import DESCRIBE_TOPIC, check
from pybroker.log.timestamps import TimestampOffset, first_record_since, newest_record
from pybroker.replication.fetch_partition import Isolation
from pybroker.replication.partition import Partition
from pyclient.protocol import ListOffsets, errors

Response = ListOffsets.Response
PartitionResponse = Response.ListOffsetsPartitionResponse
Wanted = ListOffsets.Request.ListOffsetsPartition

CONSUMER, DEBUGGER = -1, -2
OFFSET_NOT_AVAILABLE_SINCE = 5
NEVER = 1 << 15


class Special(IntEnum):
    """Special values of ``timestamp``."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


SINCE: dict[int, int] = {
    Special.LATEST: 1,
    Special.EARLIEST: 1,
    Special.MAX_TIMESTAMP: 7,
    Special.EARLIEST_LOCAL: 8,
    Special.LATEST_TIERED: 9,
    Special.EARLIEST_PENDING_UPLOAD: 11,
}
NOWHERE = TimestampOffset(-1, -1, -1)


@in_turns
def handle(request: ListOffsets.Request, call: Call) -> Paced[ListOffsets.Response]:
    """Answers with one result per partition; refuses a partition that is named twice."""
    isolation = isolation_of(request)
    must_lead = request.replica_id != DEBUGGER
    topics = request.topics
    twice = yield from repeated((topic.name, each.partition_index) for topic in topics for each in topic.partitions)
    response = Response()
    for topic in topics:
        answers: list[PartitionResponse] = []
        response.topics.append(Response.ListOffsetsTopicResponse(name=topic.name, partitions=answers))
        for each in topic.partitions:
            yield
            answer = PartitionResponse(partition_index=each.partition_index)
            answers.append(answer)
            try:
                check(call, DESCRIBE_TOPIC, topic.name)
                if twice and (topic.name, each.partition_index) in twice:
                    raise errors.InvalidRequest("the partition is named twice")
                check_timestamp(each.timestamp, call.version)
                partition = call.broker.replicas.find(topic.name, each.partition_index)
                partition.check(each.current_leader_epoch, must_lead=must_lead)
                found = find(partition, each.timestamp, isolation)
            except errors.KafkaError as error:
                answer.error_code = code_of(error, call.version)
                continue
            answer.timestamp, answer.offset, answer.leader_epoch = found
    return response


def isolation_of(request: ListOffsets.Request) -> Isolation:
    """Returns how far the client may read: replicas and debugging consumers read up to the log end."""
    if request.replica_id != CONSUMER:
        return Isolation.LOG_END
    if request.isolation_level == Isolation.READ_COMMITTED:
        return Isolation.READ_COMMITTED
    return Isolation.READ_UNCOMMITTED


def check_timestamp(timestamp: int, version: int) -> None:
    """Raises UnsupportedVersion for a special timestamp that the version does not have."""
    if timestamp < 0 and version < SINCE.get(timestamp, NEVER):
        raise errors.UnsupportedVersion(f"timestamp {timestamp} is unknown in version {version}")


def find(partition: Partition, timestamp: int, isolation: Isolation) -> TimestampOffset:
    """Returns the offset for ``timestamp``, NOWHERE if there is none. Raises OffsetNotAvailable."""
    if timestamp in (Special.EARLIEST, Special.EARLIEST_LOCAL):
        return partition.earliest_offset()
    if timestamp in (Special.LATEST_TIERED, Special.EARLIEST_PENDING_UPLOAD):
        return NOWHERE
    end = partition.latest_offset(isolation)
    if timestamp == Special.LATEST:
        partition.check_offsets_are_known(isolation)
        return TimestampOffset(-1, end, partition.leader_epoch)
    if timestamp == Special.MAX_TIMESTAMP:
        found = newest_record(partition.log)
    else:
        found = first_record_since(partition.log, timestamp)
    if found is not None and found.offset < end:
        return found
    if isolation is not Isolation.LOG_END:
        partition.check_offsets_are_known(isolation)
    return NOWHERE


def code_of(error: errors.KafkaError, version: int) -> int:
    """Returns the error's code; older clients get LEADER_NOT_AVAILABLE for OFFSET_NOT_AVAILABLE (KIP-207)."""
    if isinstance(error, errors.OffsetNotAvailable) and version < OFFSET_NOT_AVAILABLE_SINCE:
        return errors.LeaderNotAvailable.code
    return error.code
