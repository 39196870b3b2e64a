"""Headers, byte by byte."""

from __future__ import annotations

import pytest

from cy.wire.buffer import DecodeError
from pyclient.protocol import ApiVersions, Heartbeat, SaslHandshake
from pyclient.protocol.errors import RebalanceInProgress
from pyclient.protocol.frames import decode_request_header, decode_response_header


def header(text: str) -> tuple[int, int, int, str | None, int]:
    data = bytes.fromhex(text)
    found = decode_request_header(data, 0, len(data))
    key, version, client_id = found.api_key, found.api_version, found.client_id
    return key, version, found.correlation_id, client_id, found.position


def test_a_request_header_has_api_key_version_correlation_id_and_client_id() -> None:
    assert header("0003 0001 00000007 0002 6d65") == (3, 1, 7, "me", 12)


def test_a_client_id_may_be_null() -> None:
    assert header("0003 0001 ffffffff ffff") == (3, 1, -1, None, 10)


def test_the_header_of_a_flexible_version_has_tagged_fields() -> None:
    assert header("0003 0009 00000007 0002 6d65 00") == (3, 9, 7, "me", 13)
    assert header("0003 0009 00000007 0002 6d65 01 05 02 6161") == (3, 9, 7, "me", 17)


def test_the_header_of_an_unknown_api_is_read_without_tagged_fields() -> None:
    assert header("03e8 0001 00000007 0002 6d65") == (1000, 1, 7, "me", 12)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0003",
        "0003 0001 00000007",
        "0003 0001 00000007 0003 6d65",
        "0003 0001 00000007 fffe",
        "0003 0001 00000007 0002 c328",
        "0003 0009 00000007 0002 6d65",
        "0003 0009 00000007 0002 6d65 ffffffff0f",
    ],
)
def test_case_48_a_malformed_header_is_an_error(text: str) -> None:
    with pytest.raises(DecodeError):
        header(text)


def test_the_response_of_api_versions_has_no_tagged_fields_in_its_header() -> None:
    frame = ApiVersions.encode_response(3, 7, ApiVersions.Response())
    assert frame == bytes.fromhex("0000000c 00000007 0000 01 00000000 00")
    assert decode_response_header(ApiVersions, 3, frame, 4, 16) == (7, 8)


def test_other_flexible_responses_have_tagged_fields_in_their_header() -> None:
    frame = Heartbeat.encode_response(4, 7, Heartbeat.Response(error_code=RebalanceInProgress.code))
    assert frame == bytes.fromhex("0000000c 00000007 00 00000000 001b 00")
    assert decode_response_header(Heartbeat, 4, frame, 4, 16) == (7, 9)


def test_an_api_without_flexible_versions_has_no_tagged_fields() -> None:
    frame = SaslHandshake.encode_request(1, 7, None, SaslHandshake.Request(mechanism="PLAIN"))
    assert frame == bytes.fromhex("00000011 0011 0001 00000007 ffff 0005 504c41494e")
