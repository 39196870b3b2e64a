"""The user and the address that a forwarded request came from, as an Envelope carries them (KIP-590)."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

from cy.wire.buffer import DecodeError
from pyclient.protocol import errors
from pyclient.protocol.records import DefaultPrincipalData

Bytes = bytes | bytearray | memoryview

_VERSION: Final = 0


def encoded(principal: str, host: str, *, is_by_token: bool = False) -> tuple[bytes, bytes]:
    """The principal (``User:alice``) as Kafka's principal builder writes it, and the bytes of the address.

    ``is_by_token``: a delegation token says that it is the principal.
    """
    kind, _, name = principal.partition(":")
    fields = DefaultPrincipalData(type=kind, name=name, token_authenticated=is_by_token)
    data = DefaultPrincipalData.encode(_VERSION, fields)
    address = ip_address(host.partition("%")[0])
    return data, address.packed


def decoded(principal: Bytes, host: Bytes) -> tuple[str, str, bool]:
    """Principal, address, and whether a delegation token says so. Raises PrincipalDeserializationFailure."""
    try:
        data = DefaultPrincipalData.decode(principal)
        return f"{data.type}:{data.name}", str(ip_address(bytes(host))), data.token_authenticated
    except (DecodeError, ValueError) as error:
        raise errors.PrincipalDeserializationFailure(str(error)) from error
