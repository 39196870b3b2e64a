"""Headers of requests and responses (KIP-482: versions 2 and 1 have tagged fields).

    request:  int16 api key, int16 api version, int32 correlation id, string? client id [, tags]
    response: int32 correlation id [, tags]

The client id is never compact. The API's version tells whether there are tagged fields. The header of an ApiVersions
response never has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cy.wire import codec
from cy.wire.codec import RequestHeader, RequestHeaders
from pyclient.protocol.apis import ALL, Api

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["RequestHeader", "ResponseHeader", "decode_request_header", "decode_response_header"]

decode_request_header = RequestHeaders({api.key: api.flexible_from for api in ALL}).decode


class ResponseHeader(NamedTuple):
    """A response's header. ``position`` is where the message begins."""

    correlation_id: int
    position: int


def decode_response_header(
    api: Api, version: int, view: Buffer, position: int, end: int
) -> ResponseHeader:
    """Returns the header of the response to a request of that API and version."""
    flexible = api.response_codec.has_flexible_header(version)
    return ResponseHeader(*codec.decode_response_header(view, position, end, flexible))
