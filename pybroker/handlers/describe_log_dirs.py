"""DescribeLogDirs (35), 1-5: what lies in each log dir (KIP-113).

v3 an error for all, v4 total and usable bytes (KIP-827), v5 cordoned dirs (KIP-1066; there are
none). A replica that is being moved appears twice: where it is, and as a future one where it goes. A stray
appears under the name of its folder, where all topics are asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from pybroker.handlers.call import Call
from pybroker.log.log import Log
from pybroker.log.log_dir import LogDir
from pybroker.log.move import Move
from pybroker.log.strays import Stray
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import DescribeLogDirs, errors

Response = DescribeLogDirs.Response
Result = Response.DescribeLogDirsResult
PartitionResult = Response.DescribeLogDirsPartition

UNKNOWN_BYTES = -1


def handle(request: DescribeLogDirs.Request, call: Call) -> DescribeLogDirs.Response:
    """One line per log dir; null topics are all of them."""
    chosen = None
    if request.topics is not None:
        chosen = {TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions}

    def is_chosen(topic_partition: TopicPartition) -> bool:
        return chosen is None or topic_partition in chosen

    logs = call.broker.logs
    running = (logs.moving_to(log.topic_partition) for log in logs)
    moves = [move for move in running if move is not None and not move.has_switched]
    strays = logs.strays if chosen is None else []
    return Response(results=[describe(each, moves, strays, is_chosen) for each in logs.dirs])


def describe(
    log_dir: LogDir, moves: list[Move], strays: list[Stray], is_chosen: Callable[[TopicPartition], bool]
) -> Result:
    """One log dir with the chosen replicas."""
    if log_dir.offline:
        return Result(error_code=errors.KafkaStorageError.code, log_dir=log_dir.path)
    topics: dict[str, list[PartitionResult]] = {}
    for tp, log in list(log_dir.logs.items()):
        if is_chosen(tp):
            topics.setdefault(tp.topic, []).append(current(log))
    for move in moves:
        tp = move.log.topic_partition
        if move.target is log_dir and is_chosen(tp):
            topics.setdefault(tp.topic, []).append(future(move))
    for stray in strays:
        if stray.log_dir is log_dir:
            name = os.path.basename(stray.folder)
            found = PartitionResult(partition_index=stray.note.topic_partition.partition, partition_size=stray.size)
            topics.setdefault(name, []).append(found)
    total, usable = space(log_dir)
    return Result(
        log_dir=log_dir.path,
        topics=[Response.DescribeLogDirsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        total_bytes=total,
        usable_bytes=usable,
    )


def current(log: Log) -> PartitionResult:
    """A replica where it is; its lag is how far its end is behind the high watermark."""
    return PartitionResult(
        partition_index=log.topic_partition.partition,
        partition_size=log.size,
        offset_lag=max(0, log.high_watermark - log.log_end_offset),
    )


def future(move: Move) -> PartitionResult:
    """A replica where it goes; its lag in records is estimated by bytes."""
    log = move.log
    records = log.log_end_offset - log.log_start_offset
    return PartitionResult(
        partition_index=log.topic_partition.partition,
        partition_size=move.copied_bytes,
        offset_lag=records * move.lag_bytes // max(1, log.size),
        is_future_key=True,
    )


def space(log_dir: LogDir) -> tuple[int, int]:
    """Total and usable bytes of the volume, (-1, -1) where it does not tell."""
    try:
        return log_dir.storage.space(log_dir.path)
    except OSError:
        return UNKNOWN_BYTES, UNKNOWN_BYTES
