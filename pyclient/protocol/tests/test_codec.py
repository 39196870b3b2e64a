"""Malformed bytes, and messages that a version cannot encode."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from cy.wire.buffer import DecodeError, EncodeError
from cy.wire.sendfile import FileSlice
from pyclient.protocol import (
    AlterUserScramCredentials,
    DescribeAcls,
    Fetch,
    FindCoordinator,
    Heartbeat,
    ListGroups,
    ListOffsets,
    Metadata,
    Produce,
    apis,
)
from pyclient.protocol.schema import read_bodies
from pyclient.protocol.tests.random_messages import Source


def decode(api: apis.Api, version: int, data: bytes) -> Any:
    return api.decode_request(version, data, 0, len(data))


# what is wrong; the API and version whose request it pretends to be; the bytes
MALFORMED = (
    ("text cut off", FindCoordinator, 0, "0005 61626364"),
    ("length cut off", FindCoordinator, 0, "00"),
    ("nothing at all", FindCoordinator, 0, ""),
    ("null where null is not allowed", FindCoordinator, 0, "ffff"),
    ("negative length", FindCoordinator, 0, "fffe"),
    ("bad UTF-8", FindCoordinator, 0, "0002 c328"),
    ("a surrogate in UTF-8", FindCoordinator, 0, "0003 eda080"),
    ("trailing bytes", FindCoordinator, 0, "0001 61 00"),
    ("negative count", Metadata, 0, "fffffffe"),
    ("null array where null is not allowed", Metadata, 0, "ffffffff"),
    ("count above the bytes left", Metadata, 0, "00000002 0001 61"),
    ("the largest count", Metadata, 0, "7fffffff 0001 61"),
    ("compact null where null is not allowed", ListGroups, 4, "00 00"),
    ("compact count above the bytes left", ListGroups, 4, "05 02 61 00"),
    ("the largest compact count", ListGroups, 4, "ffffffff0f 02 61 00"),
    ("compact text cut off", ListGroups, 4, "02 05 61 00"),
    ("compact text above 32767 bytes", ListGroups, 4, "02 818002" + "61" * 0x8000 + "00"),
    ("varint cut off", ListGroups, 4, "80"),
    ("varint of 6 bytes", ListGroups, 4, "808080808000 00"),
    ("varint of 33 bits", ListGroups, 4, "ffffffff1f 00"),
    ("no tagged fields where their count must be", ListGroups, 3, ""),
    ("a huge count of tagged fields", ListGroups, 3, "ffffffff0f"),
    ("tagged field cut off", ListGroups, 3, "01 05 04 616161"),
    ("a huge tagged field", ListGroups, 3, "01 05 ffffffff0f 61"),
    ("known tagged field of another size", Fetch, 12, None),
)


def wrong_tag_size() -> str:
    """Returns a Fetch request of version 12 whose cluster_id "a" (tag 0, 2 bytes) declares 3 bytes."""
    plain = Fetch.request_codec.encode(12, Fetch.Request())
    return plain[:-1].hex() + "01 00 03 02 61 00"


@pytest.mark.parametrize(
    ("api", "version", "data"),
    [pytest.param(*row[1:], id=row[0]) for row in MALFORMED],
)
def test_case_48_malformed_bytes_are_an_error(
    api: apis.Api, version: int, data: str | None
) -> None:
    with pytest.raises(DecodeError):
        decode(api, version, bytes.fromhex(wrong_tag_size() if data is None else data))


@pytest.mark.parametrize("api", apis.ALL, ids=lambda api: api.name)
def test_case_48_every_cut_and_every_added_byte_is_an_error(api: apis.Api) -> None:
    bodies = read_bodies(api.head)
    for version in range(api.min_version, api.max_version + 1):
        for side, codec in (("request", api.request_codec), ("response", api.response_codec)):
            source = Source(version, bodies[side], getattr(api, side.title()), version)
            data = codec.encode(version, source.next()[0])
            for end in range(len(data)):
                with pytest.raises(DecodeError):
                    codec.decode(version, data, 0, end)
            if side == "response" or not api.head.is_open:
                with pytest.raises(DecodeError):
                    codec.decode(version, data + b"\0", 0, len(data) + 1)


@pytest.mark.parametrize(
    ("api", "version", "data"),
    [
        pytest.param(Metadata, 0, "7fffffff 0001 61", id="array"),
        pytest.param(ListGroups, 4, "ffffffff0f 02 61 00", id="compact array"),
        pytest.param(FindCoordinator, 0, "7fff 61", id="text"),
        pytest.param(Produce, 3, "ffff 0001 00000000 00000001 0001 61 00000001 00000000 7fffffff",
                     id="records"),
        pytest.param(ListGroups, 3, "ffffffff0f 00", id="tags"),
    ],
)  # fmt: skip
def test_case_46_declared_bytes_that_did_not_arrive_take_no_memory(
    api: apis.Api, version: int, data: str
) -> None:
    frame = bytes.fromhex(data)
    with pytest.raises(DecodeError):
        decode(api, version, frame)
    assert min(peak(api, version, frame) for _ in range(5)) < 16_384, "of attempts: other threads have memory too"


def peak(api: apis.Api, version: int, frame: bytes) -> int:
    """Returns the peak of memory while the frame is refused."""
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            decode(api, version, frame)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("version", [-1, 3, 19, 127, 32767])
def test_case_47_an_unsupported_version_is_an_error(version: int) -> None:
    with pytest.raises(DecodeError, match=f"Fetch request has no version {version}"):
        decode(Fetch, version, bytes(100))
    with pytest.raises(EncodeError, match=f"Fetch request has versions 4 to 18, not {version}"):
        Fetch.encode_request(version, 1, "", Fetch.Request())


@pytest.mark.parametrize("place", [(-1, 2), (0, 5), (3, 2)])
def test_a_position_outside_the_buffer_is_an_error(place: tuple[int, int]) -> None:
    with pytest.raises(DecodeError, match="outside"):
        FindCoordinator.decode_request(0, b"\0\1a\0", *place)


def test_unknown_tagged_fields_are_skipped() -> None:
    assert decode(ListGroups, 3, bytes.fromhex("02 05 02 6161 ff01 00")) == ListGroups.Request()


def test_librdkafkas_request_for_all_topics_is_read_though_bytes_are_left_over() -> None:
    request = decode(Metadata, 12, bytes.fromhex("00000000 01 00 00"))
    assert request == Metadata.Request(topics=None, allow_auto_topic_creation=False)


def test_kafka_gos_request_for_acls_is_read_though_a_byte_is_left_over() -> None:
    request = decode(DescribeAcls, 3, bytes.fromhex("02 036162 02 00 00 01 01 00 00"))
    assert (request.resource_name_filter, request.principal_filter, request.operation) == ("ab", None, 1)


def test_no_other_request_may_have_bytes_behind_its_end() -> None:
    assert [api for api in apis.ALL if api.head.is_open] == [Metadata, DescribeAcls, AlterUserScramCredentials]


def test_any_contiguous_buffer_can_be_read() -> None:
    frame = FindCoordinator.request_codec.encode(0, FindCoordinator.Request(key="me"))
    for buffer in (frame, bytearray(frame), memoryview(frame), memoryview(bytearray(frame))):
        assert FindCoordinator.decode_request(0, buffer, 0, len(frame)).key == "me"
    with pytest.raises((BufferError, ValueError)):
        FindCoordinator.decode_request(0, memoryview(frame)[::2], 0, 1)


def produce(records: Any) -> Produce.Request:
    partition = Produce.Request.PartitionProduceData(index=3, records=records)
    topic = Produce.Request.TopicProduceData(name="flights", partition_data=[partition])
    return Produce.Request(acks=-1, topic_data=[topic])


@pytest.mark.parametrize("version", [3, 9])
def test_records_are_a_view_into_the_buffer_that_can_be_written(version: int) -> None:
    buffer = bytearray(Produce.request_codec.encode(version, produce(b"batch")))
    view = Produce.decode_request(version, buffer, 0, len(buffer)).topic_data[0].partition_data[0]
    assert isinstance(view.records, memoryview)
    view.records[0] = ord("B")
    assert b"Batch" in buffer


def test_the_buffer_is_released_with_the_view() -> None:
    buffer = bytearray(Produce.request_codec.encode(3, produce(b"batch")))
    message = Produce.decode_request(3, buffer, 0, len(buffer))
    with pytest.raises(BufferError):
        buffer.append(0)
    del message
    buffer.append(0)


def test_a_repeated_text_is_decoded_as_the_same_object() -> None:
    data = FindCoordinator.request_codec.encode(0, FindCoordinator.Request(key="a-group"))
    assert decode(FindCoordinator, 0, data).key is decode(FindCoordinator, 0, data).key


# field, value, what the error says
UNFIT = (
    ("acks", 1 << 15, r"Produce\.Request\.acks: 32768 is outside -32768\.\.32767"),
    ("acks", "1", r"Produce\.Request\.acks: "),
    ("acks", None, r"Produce\.Request\.acks: "),
    ("timeout_ms", 1 << 70, r"Produce\.Request\.timeout_ms: "),
    ("transactional_id", "x" * 32768, r"transactional_id: 32768 bytes or elements are too many"),
    ("transactional_id", b"x", r"Produce\.Request\.transactional_id: "),
    ("topic_data", None, r"Produce\.Request\.topic_data: None is not allowed here"),
    ("topic_data", 5, r"Produce\.Request\.topic_data: expected a list"),
    ("topic_data", ["x"], r"topic_data: expected a Produce\.Request\.TopicProduceData, not 'x'"),
)


@pytest.mark.parametrize("version", [3, 9])
@pytest.mark.parametrize(("field", "value", "text"), UNFIT)
def test_an_error_names_the_value_that_does_not_fit(
    field: str, value: Any, text: str, version: int
) -> None:
    with pytest.raises(EncodeError, match=text):
        Produce.encode_request(version, 1, "me", Produce.Request(**{field: value}))


def test_an_error_names_the_nested_field() -> None:
    request = produce(b"")
    request.topic_data[0].partition_data[0].index = "x"  # type: ignore[assignment]
    with pytest.raises(EncodeError, match=r"Request\.PartitionProduceData\.index: 'str' object"):
        Produce.encode_request(9, 1, "me", request)
    unfit = Produce.Request(topic_data=[Produce.Request.TopicProduceData(topic_id=b"x")])
    with pytest.raises(EncodeError, match=r"TopicProduceData\.topic_id: b'x' is not an id of 16"):
        Produce.encode_request(13, 1, "me", unfit)


def test_a_failed_encoding_does_not_affect_the_next_frame() -> None:
    plain = Heartbeat.encode_request(4, 1, "me", Heartbeat.Request(group_id="g"))
    with pytest.raises(EncodeError):
        Produce.encode_request(9, 1, "me", Produce.Request(acks="x"))  # type: ignore[arg-type]
    assert Heartbeat.encode_request(4, 1, "me", Heartbeat.Request(group_id="g")) == plain


def test_a_field_that_the_version_lacks_is_an_error() -> None:
    request = Heartbeat.Request(group_id="g", group_instance_id="i")
    with pytest.raises(EncodeError, match="group_instance_id: this version has no such field"):
        Heartbeat.encode_request(2, 1, "me", request)


def test_a_response_omits_fields_that_its_version_lacks() -> None:
    offset = ListOffsets.Response.ListOffsetsPartitionResponse(offset=5, leader_epoch=3)
    topic = ListOffsets.Response.ListOffsetsTopicResponse(name="a", partitions=[offset])
    response = ListOffsets.Response(topics=[topic])
    data = ListOffsets.response_codec.encode(3, response)
    read = ListOffsets.decode_response(3, data, 0, len(data))
    assert (read.topics[0].partitions[0].offset, read.topics[0].partitions[0].leader_epoch) == (
        5,
        -1,
    )


def test_an_ignorable_field_is_dropped_where_the_version_lacks_it() -> None:
    request = Fetch.Request(rack_id="here")
    assert Fetch.encode_request(4, 1, "", request) == Fetch.encode_request(
        4, 1, "", Fetch.Request()
    )


def total(frame: list[Any]) -> int:
    return sum(piece.length if isinstance(piece, FileSlice) else len(piece) for piece in frame)


def fetched(*records: Any) -> Fetch.Response:
    answer = Fetch.Response
    partitions = [answer.PartitionData(partition_index=i, records=r) for i, r in enumerate(records)]
    topic = answer.FetchableTopicResponse(topic="flights", partitions=partitions)
    return answer(responses=[topic])


@pytest.mark.parametrize("version", [4, 12, 18])
def test_file_slices_and_large_bytes_are_separate_pieces_of_a_frame(
    version: int, tmp_path: Path
) -> None:
    content, large = b"0123456789" * 10, bytes(range(256)) * 100
    (tmp_path / "segment").write_bytes(content)
    with (tmp_path / "segment").open("rb") as file:
        part = FileSlice(file, 10, 30)
        frame = Fetch.encode_response(version, 7, fetched(part, b"small", large, None))
        assert isinstance(frame, list)
        assert part in frame
        assert any(piece is large for piece in frame)
        flat = b"".join(p.read() if isinstance(p, FileSlice) else p for p in frame)
    same = fetched(content[10:40], b"small", memoryview(large), None)
    assert flat == Fetch.encode_response(version, 7, same)
    assert int.from_bytes(flat[:4], "big") == total(frame) - 4 == len(flat) - 4


def test_a_frame_that_ends_with_a_slice_has_no_empty_last_piece(tmp_path: Path) -> None:
    (tmp_path / "segment").write_bytes(b"0123456789")
    with (tmp_path / "segment").open("rb") as file:
        frame = Fetch.encode_response(4, 7, fetched(FileSlice(file, 0, 10)))
        assert isinstance(frame, list)
        assert isinstance(frame[-1], FileSlice)


def test_a_frame_without_large_fields_is_one_bytes_object() -> None:
    assert isinstance(Fetch.encode_response(12, 7, fetched(b"small", None)), bytes)


def test_a_message_without_all_its_fields_is_refused() -> None:
    request = Produce.Request()
    del request.acks
    with pytest.raises(EncodeError, match=r"Produce\.Request\.acks: a field was deleted"):
        Produce.encode_request(9, 1, "me", request)
    for version in (4, 12):
        with pytest.raises(EncodeError):
            Fetch.encode_request(version, 1, "me", Fetch.Request.__new__(Fetch.Request))


def test_a_string_is_refused_for_a_list_field() -> None:
    with pytest.raises(EncodeError, match="expected a list, not 'abc'"):
        ListGroups.encode_request(4, 1, "me", ListGroups.Request(states_filter="abc"))  # type: ignore[arg-type]
