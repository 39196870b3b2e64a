"""A reader may limit the memory of a decoded message."""

from __future__ import annotations

import resource
import struct

import pytest

from cy.wire.buffer import DecodeError, TooMuch
from pyclient.protocol import ApiVersions, Envelope, Metadata
from pyclient.protocol.frames import decode_request_header


def test_a_message_is_decoded_only_within_its_memory_budget() -> None:
    topics = [Metadata.Request.MetadataRequestTopic(name="t") for _ in range(1000)]
    request = Metadata.Request(topics=topics)
    codec = Metadata.request_codec
    data = codec.encode(9, request)
    assert codec.decode_within(9, data, 0, len(data), 10_000) == request
    assert codec.decode_within(9, data, 0, len(data), 10_000, True) == request
    with pytest.raises(TooMuch):
        codec.decode_within(9, data, 0, len(data), 1000)


def test_tagged_fields_long_texts_and_bytes_count_towards_the_budget() -> None:
    tags = b"\1\1" + b"\xff\x07" + b"\x7f\0" * 1023
    with pytest.raises(TooMuch):
        ApiVersions.request_codec.decode_within(3, tags, 0, len(tags), 1000)
    text = Metadata.Request(topics=[Metadata.Request.MetadataRequestTopic(name="n" * 30_000)])
    data = Metadata.request_codec.encode(9, text)
    with pytest.raises(TooMuch):
        Metadata.request_codec.decode_within(9, data, 0, len(data), 1000)
    records = Envelope.Request(request_data=bytes(10_000_000))
    data = Envelope.request_codec.encode(0, records)
    with pytest.raises(TooMuch):
        Envelope.request_codec.decode_within(0, data, 0, len(data), 1000)


def test_each_response_is_encoded_within_its_own_budget() -> None:
    topics = [Metadata.Response.MetadataResponseTopic(name="t") for _ in range(1000)]
    response = Metadata.Response(topics=topics)
    codec = Metadata.response_codec
    frame = codec.encode_response(9, 1, response)
    assert codec.encode_response_within(9, 1, response, 20_000) == frame
    assert codec.encode_response_politely(9, 1, response) == frame
    with pytest.raises(TooMuch):
        codec.encode_response_within(9, 1, response, 1000)
    assert codec.encode_response(9, 1, response) == frame


@pytest.mark.nightly  # others' threads have their part in it
def test_a_polite_encoder_yields_once_in_a_thousand_elements() -> None:
    """Small arrays count together. Before, each partition's three yielded, which took a hundred times as long."""
    partition = Metadata.Response.MetadataResponsePartition(replica_nodes=[1], isr_nodes=[1], offline_replicas=[1])
    topic = Metadata.Response.MetadataResponseTopic(name="t", partitions=[partition] * 10_000)
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    Metadata.response_codec.encode_response_politely(9, 1, Metadata.Response(topics=[topic]))
    made_way = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before
    assert 20 <= made_way <= 200


def test_a_message_of_many_tagged_fields_is_refused_before_they_are_read() -> None:
    """Kafka 4.4 does the same, even without a budget: 50 million of them fit into a frame."""
    fits, more = (b"\2n\2v" + count + b"\x7f\0" * 10_000 for count in (b"\x90\x4e", b"\x91\x4e"))
    codec = ApiVersions.request_codec
    assert codec.decode(3, fits, 0, len(fits)).client_software_name == "n"
    with pytest.raises(DecodeError, match="Request: 10001 tagged fields; the limit is 10000"):
        codec.decode(3, more, 0, len(more))


def test_a_header_of_many_tagged_fields_is_refused() -> None:
    header = struct.pack(">hhih", 18, 3, 1, -1) + b"\xff\x7f" + b"\x7f\0" * 16383
    with pytest.raises(DecodeError, match="tagged fields"):
        decode_request_header(header, 0, len(header))
