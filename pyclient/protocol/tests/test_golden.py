"""Frames of real clients and of a real Kafka: read, and written again to the same bytes.

The golden files belong to the conformance suite, which sends them to a running broker.
"""

from __future__ import annotations

import pytest

from harness.protocol.golden_frames import FILES, Exchange, read
from pyclient.protocol import apis
from pyclient.protocol.frames import decode_request_header, decode_response_header

EXCHANGES = [
    pytest.param(exchange, id=f"{path.stem}: {exchange}")
    for path in FILES
    for exchange in read(path)
]


def api_of(exchange: Exchange) -> apis.Api:
    api = apis.by_key(exchange.api_key)
    assert api is not None, f"no schema of {exchange}"
    return api


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_recorded_client_request_is_decoded_and_encoded_to_the_same_bytes(exchange: Exchange) -> None:
    api, frame = api_of(exchange), exchange.request
    header = decode_request_header(frame, 4, len(frame))
    request = api.decode_request(header.api_version, frame, header.position, len(frame))
    again = api.encode_request(header.api_version, header.correlation_id, header.client_id, request)
    assert again == frame, request


@pytest.mark.parametrize("exchange", [e for e in EXCHANGES if e.values[0].response])
def test_a_recorded_kafka_response_is_decoded_and_encoded_to_the_same_bytes(exchange: Exchange) -> None:
    api, frame = api_of(exchange), exchange.response
    header = decode_response_header(api, exchange.version, frame, 4, len(frame))
    response = api.decode_response(exchange.version, frame, header.position, len(frame))
    assert api.encode_response(exchange.version, header.correlation_id, response) == frame, response


def test_the_recorded_frames_cover_five_clients_and_many_apis() -> None:
    assert len(FILES) == 5
    assert len({e.values[0].api_key for e in EXCHANGES}) > 25
