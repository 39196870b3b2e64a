"""Internal records, byte by byte; test_against_kafka compares all of them with Kafka's classes."""

from __future__ import annotations

import pytest

from cy.wire.buffer import DecodeError
from pyclient.protocol import records
from pyclient.protocol.records import (
    ConsumerProtocolSubscription,
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
)


def test_a_key_starts_with_the_type_of_its_record() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=5)
    assert OffsetCommitKey.encode(1, key) == bytes.fromhex("0001 0001 67 0001 74 00000005")
    assert GroupMetadataKey.encode(2, GroupMetadataKey(group="g")) == bytes.fromhex("0002 0001 67")


def test_a_value_starts_with_its_version() -> None:
    value = OffsetCommitValue(offset=1, leader_epoch=2, metadata="m", commit_timestamp=3)
    data = bytes.fromhex("0003 0000000000000001 00000002 0001 6d 0000000000000003")
    assert OffsetCommitValue.encode(3, value) == data
    assert OffsetCommitValue.decode(data) == value


def test_an_unknown_version_is_an_error() -> None:
    with pytest.raises(DecodeError, match="OffsetCommitValue has no version 9"):
        OffsetCommitValue.decode(bytes.fromhex("0009 00"))
    with pytest.raises(DecodeError):
        OffsetCommitValue.decode(b"")


def test_trailing_bytes_are_an_error() -> None:
    with pytest.raises(DecodeError, match="behind the end"):
        GroupMetadataKey.decode(bytes.fromhex("0002 0001 67 00"))


def test_a_later_version_of_the_consumer_protocol_is_read_as_the_latest_known() -> None:
    subscription = ConsumerProtocolSubscription(topics=["t"], generation_id=4, rack_id="r")
    data = ConsumerProtocolSubscription.encode(3, subscription)
    later = b"\x00\x09" + data[2:] + b"and more"
    assert ConsumerProtocolSubscription.decode(later) == subscription


def test_an_unknown_record_type_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError):
        _ = records.NoSuchRecord  # type: ignore[attr-defined]
