"""Measures records: one produced to each partition, the end offsets, and fetches of all partitions."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from conformance.bench import pairs
from conformance.bench.cases import LoadError
from conformance.bench.scale.spent import PATIENCE_S, SECONDS, Rows, asked, spent
from conformance.bench.scale.wide import Wide, check, rows
from conformance.bench.workers import VALUE
from harness.clients.librdkafka import Deliveries, producer
from harness.protocol.wire_client import decode_response, encode_request

LATEST = -1
FETCH = ("Fetch", 12)
LIMITS = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 50 << 20, "isolation_level": 0}
NEW_SESSION = {"session_id": 0, "session_epoch": 0}


def produce(wide: Wide) -> Rows:
    """Produces one record to each partition by librdkafka."""
    reports = Deliveries()
    client = producer(wide.broker, queue_buffering_max_messages=wide.partitions + 1)

    def work() -> None:
        for topic, count in wide.topics.items():
            for partition in range(count):
                client.produce(topic, VALUE, partition=partition, on_delivery=reports)
            client.poll(0)
        if client.flush(PATIENCE_S) or reports.errors:
            raise LoadError(f"{len(reports.messages)} of {wide.partitions} records were acknowledged")

    yield "produce", spent(wide.broker, wide.partitions, work)


def produce_ours(wide: Wide) -> Rows:
    """Produces one more record to each by our client in a process, whose start does not count."""
    load = pairs.Load("ours", "produce_each", wide.partitions)
    command = [sys.executable, "-m", "conformance.bench.workers.ours", wide.broker.bootstrap, load.case]
    samples: list[pairs.Sample] = []
    found = spent(
        wide.broker,
        wide.partitions,
        lambda: samples.append(pairs.run(load, [*command, str(load.records)], PATIENCE_S)),
    )
    seconds = load.records / samples[0].figures[pairs.SPEED]
    yield "produce_ours", replace(found, figures={**found.figures, SECONDS: seconds})


def list_offsets(wide: Wide) -> Rows:
    """Asks ListOffsets for the latest offset of all partitions."""
    named = rows(wide.topics, partition_index=None, timestamp=LATEST, current_leader_epoch=-1)
    topics = [{"name": topic, "partitions": partitions} for topic, partitions in named]
    found, reply = wide.ask("ListOffsets", 7, {"replica_id": -1, "isolation_level": 0, "topics": topics})
    check(row.error_code for topic in reply.topics for row in topic.partitions)
    yield "list_offsets", found


def fetch(wide: Wide) -> Rows:
    """Starts a fetch session of all partitions at their start, and fetches again at their ends, where nothing is new.
    """
    full, reply = wide.ask(*FETCH, _fields(_topics(wide, {}), **NEW_SESSION))
    check([reply.error_code, *(row.error_code for topic in reply.responses for row in topic.partitions)])
    ends = {
        (topic.topic, row.partition_index): row.high_watermark for topic in reply.responses for row in topic.partitions
    }
    if len(ends) < wide.partitions:
        raise LoadError(f"a fetch of {wide.partitions} partitions returned {len(ends)}")
    yield "fetch_full", full
    frames = _session(reply.session_id, _topics(wide, ends))
    empty, last = asked(wide.broker, wide.partitions, frames)
    answer = decode_response(*FETCH, last)
    check([answer.error_code])
    if answer.responses:
        raise LoadError("a fetch from the log ends returned records")
    yield "fetch_empty", empty


def _topics(wide: Wide, offsets: Mapping[tuple[str, int], int]) -> list[dict[str, Any]]:
    """Returns the topics with all partitions, at their given offsets or at 0."""
    limits = {"current_leader_epoch": -1, "last_fetched_epoch": -1, "log_start_offset": -1}
    named = rows(wide.topics, partition=None, partition_max_bytes=1 << 20, **limits)
    return [
        {
            "topic": topic,
            "partitions": [{**row, "fetch_offset": offsets.get((topic, row["partition"]), 0)} for row in partitions],
        }
        for topic, partitions in named
    ]


def _session(session: int, topics: list[dict[str, Any]]) -> Iterator[bytes]:
    """Fetches in a session: the first request moves all partitions, the later ones name none."""
    epoch = 1
    yield encode_request(*FETCH, _fields(topics, session_id=session, session_epoch=epoch))
    while True:
        epoch += 1
        yield encode_request(*FETCH, _fields([], session_id=session, session_epoch=epoch))


def _fields(topics: list[dict[str, Any]], **session: int) -> dict[str, Any]:
    return {**LIMITS, **session, "topics": topics, "forgotten_topics_data": [], "rack_id": ""}
