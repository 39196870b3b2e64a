"""DescribeLogDirs (35), 1-5: lists the replicas in each log dir, with their sizes (KIP-113).

v3 adds one error for the whole response, v4 total and usable bytes (KIP-827), v5 cordoned dirs (KIP-1066), which this
broker never has. A replica that is being moved appears twice: in its log dir, and as a future replica in the target. If
the request asks for all topics, a stray appears under the name of its folder.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import Paced, in_turns
from pybroker.log.dirs.log_dir import HeldLog, LogDir
from pybroker.log.moving.move import Move
from pybroker.log.removal.strays import Stray
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import DescribeLogDirs, errors

Response = DescribeLogDirs.Response
Result = Response.DescribeLogDirsResult
PartitionResult = Response.DescribeLogDirsPartition

Row = tuple[TopicPartition, HeldLog] | Move | Stray

UNKNOWN_BYTES = -1


@in_turns
def handle(request: DescribeLogDirs.Request, call: Call) -> Paced[DescribeLogDirs.Response]:
    """Answers with one result per log dir; null topics mean all. First creates the logs that are still missing."""
    logs, table = call.broker.logs, call.broker.replicas.partitions
    chosen: set[TopicPartition] | None = None if request.topics is None else set()
    for each in named(request):
        yield
        assert chosen is not None
        chosen.add(each)
        table.make(*each)
    for replica in table.new if chosen is None else ():
        yield
        table.new.make(*replica)
    moves: list[Move] = []
    for log in logs:
        yield
        move = logs.moving_to(log.topic_partition)
        if move is not None and not move.has_switched:
            moves.append(move)
    response = Response()
    for log_dir in logs.dirs:
        strays = [] if chosen is not None else logs.strays
        rows: Iterator[Row] = itertools.chain(log_dir.logs.copy().items(), moves, strays)
        found = Found(log_dir, chosen)
        for row in rows:
            yield
            found.add(row)
        response.results.append(found.result())
    return response


def named(request: DescribeLogDirs.Request) -> Iterator[TopicPartition]:
    """Yields the partitions that the request names."""
    for topic in request.topics or ():
        for index in topic.partitions:
            yield TopicPartition(topic.topic, index)


class Found:
    """Gathers the replicas in a log dir that belong to the chosen partitions, or all replicas if these are None."""

    def __init__(self, log_dir: LogDir, chosen: set[TopicPartition] | None) -> None:
        self._log_dir = log_dir
        self._chosen = chosen
        self._topics: dict[str, list[PartitionResult]] = {}

    def add(self, row: Row) -> None:
        """Adds a log, a move or a stray, unless it belongs to another log dir."""
        if isinstance(row, Move):
            tp = row.log.topic_partition
            if row.target is self._log_dir and self._is_chosen(tp):
                self._put(tp.topic, future(row))
        elif isinstance(row, Stray):
            if row.log_dir is self._log_dir:
                index = row.note.topic_partition.partition
                found = PartitionResult(partition_index=index, partition_size=row.size)
                self._put(os.path.basename(row.folder), found)
        elif self._is_chosen(row[0]):
            self._put(row[0].topic, current(row[1]))

    def _is_chosen(self, topic_partition: TopicPartition) -> bool:
        return self._chosen is None or topic_partition in self._chosen

    def _put(self, topic: str, found: PartitionResult) -> None:
        self._topics.setdefault(topic, []).append(found)

    def result(self) -> Result:
        """Returns the result of the log dir."""
        if self._log_dir.offline:
            return Result(error_code=errors.KafkaStorageError.code, log_dir=self._log_dir.path)
        total, usable = space(self._log_dir)
        return Result(
            log_dir=self._log_dir.path,
            topics=[
                Response.DescribeLogDirsTopic(name=name, partitions=partitions)
                for name, partitions in self._topics.items()
            ],
            total_bytes=total,
            usable_bytes=usable,
        )


def current(log: HeldLog) -> PartitionResult:
    """Returns a current replica. Its lag is the number of offsets from its log end to the high watermark."""
    return PartitionResult(
        partition_index=log.topic_partition.partition,
        partition_size=log.size,
        offset_lag=max(0, log.high_watermark - log.log_end_offset),
    )


def future(move: Move) -> PartitionResult:
    """Returns a future replica, at the target of its move. Its lag in records is estimated from bytes."""
    log = move.log
    records = log.log_end_offset - log.log_start_offset
    return PartitionResult(
        partition_index=log.topic_partition.partition,
        partition_size=move.copied_bytes,
        offset_lag=records * move.lag_bytes // max(1, log.size),
        is_future_key=True,
    )


def space(log_dir: LogDir) -> tuple[int, int]:
    """Returns total and usable bytes of the volume, or (-1, -1) if the operating system does not tell."""
    try:
        return log_dir.storage.space(log_dir.path)
    except OSError:
        return UNKNOWN_BYTES, UNKNOWN_BYTES
