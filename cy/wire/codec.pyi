from collections.abc import Callable
from typing import Any

from typing_extensions import Buffer

from cy.wire.messages import Message
from cy.wire.sendfile import FileSlice
from cy.wire.plan import Plan
from cy.wire.wire_types import WireType

class Codec:
    """The plans of one message by version."""

    name: str
    key: int
    min_version: int
    max_version: int
    def __init__(
        self,
        name: str,
        key: int,
        min_version: int,
        max_version: int,
        flexible_header: int,
        compile: Callable[[int], Plan],
        open: bool = False,
    ) -> None: ...
    def has_flexible_header(self, version: int) -> bool: ...
    def plan(self, version: int) -> Plan: ...
    def element(self, version: int, *path: str) -> WireType: ...
    def decode(self, version: int, view: Buffer, position: int, end: int) -> Any: ...
    def decode_within(
        self,
        version: int,
        view: Buffer,
        position: int,
        end: int,
        budget: int,
        polite: bool = False,
    ) -> Any: ...
    def decode_response(
        self, version: int, correlation_id: int, view: Buffer, position: int, end: int
    ) -> Any: ...
    def encode(self, version: int, message: Message) -> bytes: ...
    def encode_request(
        self, version: int, correlation_id: int, client_id: str | None, message: Message
    ) -> bytes | list[bytes | FileSlice]: ...
    def encode_response(
        self, version: int, correlation_id: int, message: Message
    ) -> bytes | list[bytes | FileSlice]: ...
    def encode_response_within(
        self, version: int, correlation_id: int, message: Message, budget: int
    ) -> bytes | list[bytes | FileSlice]: ...
    def encode_response_politely(
        self, version: int, correlation_id: int, message: Message
    ) -> bytes | list[bytes | FileSlice]: ...
    def encode_record(self, version: int, message: Message) -> bytes: ...
    def decode_record(self, view: Buffer) -> Any: ...
    def decode_open_record(self, view: Buffer) -> Any: ...

class RequestHeader:
    @property
    def api_key(self) -> int: ...
    @property
    def api_version(self) -> int: ...
    @property
    def correlation_id(self) -> int: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def position(self) -> int: ...

class RequestHeaders:
    def __init__(self, flexible: dict[int, int]) -> None: ...
    def decode(self, view: Buffer, position: int, end: int) -> RequestHeader: ...

def decode_response_header(
    view: Buffer, position: int, end: int, flexible: bool
) -> tuple[int, int]: ...
