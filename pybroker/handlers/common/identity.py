"""Encodes and decodes the user and the address of a forwarded request, in an Envelope's format (KIP-590)."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

from cy.wire.buffer import DecodeError
from pyclient.protocol import errors
from pyclient.protocol.records import DefaultPrincipalData

Bytes = bytes | bytearray | memoryview

_VERSION: Final = 0


def encoded(principal: str, host: str, *, is_by_token: bool = False) -> tuple[bytes, bytes]:
    """Returns the principal (``User:alice``) in the form of Kafka's principal builder, and the address in bytes.

    ``is_by_token`` is True if the client authenticated with a delegation token.
    """
    kind, _, name = principal.partition(":")
    fields = DefaultPrincipalData(type=kind, name=name, token_authenticated=is_by_token)
    data = DefaultPrincipalData.encode(_VERSION, fields)
    address = ip_address(host.partition("%")[0])
    return data, address.packed


def decoded(principal: Bytes, host: Bytes) -> tuple[str, str, bool]:
    """Returns the principal, its address, and whether it authenticated with a delegation token.

    Raises PrincipalDeserializationFailure.
    """
    try:
        data = DefaultPrincipalData.decode(principal)
        return f"{data.type}:{data.name}", str(ip_address(bytes(host))), data.token_authenticated
    except (DecodeError, ValueError) as error:
        raise errors.PrincipalDeserializationFailure(str(error)) from error
