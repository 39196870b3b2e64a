"""Nanoseconds per message of the codec: ``python -m pyclient.protocol.benchmarks.codec``.

The cases are the most frequent small requests of a broker: one topic, one partition. Each figure is the best of several
rounds on one core, so that a busy machine disturbs it least.

Measured on a 2-core AMD EPYC, Python 3.11. Produce takes 1.2 µs of the 20 that a small produce may cost: request header
0.11 µs, request 0.43, making the response 0.38, encoding it 0.27. Fetch: request 0.46, making the response 0.40,
encoding it 0.30.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from functools import partial

from cy.wire.messages import Message
from pyclient.protocol import Fetch, Metadata, Produce
from pyclient.protocol.apis import Api
from pyclient.protocol.frames import decode_request_header

ROUNDS = 7
REPEAT = 20_000
TOPIC_ID = bytes(range(16))
RECORDS = bytes(170)


def produce_request() -> Produce.Request:
    request = Produce.Request
    partition = request.PartitionProduceData(index=0, records=RECORDS)
    topic = request.TopicProduceData(name="flights", topic_id=TOPIC_ID, partition_data=[partition])
    return request(acks=1, timeout_ms=30_000, topic_data=[topic])


def produce_response() -> Produce.Response:
    response = Produce.Response
    partition = response.PartitionProduceResponse(index=0, base_offset=4711, log_start_offset=0)
    topic = response.TopicProduceResponse(
        name="flights", topic_id=TOPIC_ID, partition_responses=[partition]
    )
    return response(responses=[topic])


def fetch_request() -> Fetch.Request:
    request = Fetch.Request
    partition = request.FetchPartition(
        partition=0, fetch_offset=4711, partition_max_bytes=1 << 20, current_leader_epoch=3
    )
    topic = request.FetchTopic(topic="flights", topic_id=TOPIC_ID, partitions=[partition])
    return request(max_wait_ms=500, min_bytes=1, session_epoch=-1, topics=[topic])


def fetch_response() -> Fetch.Response:
    response = Fetch.Response
    partition = response.PartitionData(
        partition_index=0, high_watermark=4711, last_stable_offset=4711, records=RECORDS
    )
    topic = response.FetchableTopicResponse(
        topic="flights", topic_id=TOPIC_ID, partitions=[partition]
    )
    return response(responses=[topic])


def cases() -> dict[str, Callable[[], object]]:
    """Returns the measured calls, by name."""
    everything = Metadata.Request(topics=None)
    found: dict[str, Callable[[], object]] = {
        "make a Produce response": produce_response,
        "make a Fetch response": fetch_response,
        "encode a Metadata 12 request": partial(Metadata.encode_request, 12, 1, "", everything),
    }
    for version in (9, 13):
        found |= api_cases(Produce, version, produce_request(), produce_response())
    for version in (12, 18):
        found |= api_cases(Fetch, version, fetch_request(), fetch_response())
    return found


def api_cases(
    api: Api, version: int, request: Message, response: Message
) -> dict[str, Callable[[], object]]:
    """Returns a broker's calls: header and request in, response out."""
    frame = api.encode_request(version, 1, "rdkafka", request)
    assert isinstance(frame, bytes)
    view, end = memoryview(bytearray(frame)), len(frame)
    start = decode_request_header(view, 4, end).position
    return {
        "decode a request header": partial(decode_request_header, view, 4, end),
        f"decode a {api.name} {version} request": partial(
            api.decode_request, version, view, start, end
        ),
        f"encode a {api.name} {version} response": partial(
            api.encode_response, version, 1, response
        ),
    }


def main() -> None:
    for name, run in cases().items():
        seconds = min(timeit.repeat(run, number=REPEAT, repeat=ROUNDS)) / REPEAT
        print(f"{name:32} {seconds * 1e9:7.0f} ns")


if __name__ == "__main__":
    main()
