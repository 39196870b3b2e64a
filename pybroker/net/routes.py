"""Finds the decoder, handler and encoder for the API key and version of a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

PRODUCE = 0
API_VERSIONS = 18


class Api(Protocol):
    """The part of a ``pyclient.protocol`` API that this module uses."""

    key: int
    name: str
    min_version: int
    max_version: int
    Response: type

    def decode_request_within(
        self, version: int, view: Any, position: int, end: int, budget: int, polite: bool = False
    ) -> Any: ...

    def encode_response_within(self, version: int, correlation_id: int, response: Any, budget: int) -> Any: ...

    def encode_response_politely(self, version: int, correlation_id: int, response: Any) -> Any: ...


class Row(Protocol):
    """A row of the table of supported APIs (``pybroker.handlers.Row``)."""

    @property
    def api(self) -> Any: ...

    @property
    def handle(self) -> Callable[[Any, Any], Any]: ...

    @property
    def most_units(self) -> int: ...


class Route(NamedTuple):
    """An API, with the functions that decode, handle and encode its requests."""

    name: str
    low: int
    high: int
    decode: Callable[..., Any]
    """``decode(version, view, position, end, budget, polite=False)``: raises DecodeError, TooMuch."""
    handle: Callable[[Any, Any], Any]
    encode: Callable[[int, int, Any, int], Any]
    """``encode(version, correlation_id, response, budget)``: raises TooMuch."""
    encode_apart: Callable[[int, int, Any], Any]
    """Does the same as ``encode`` on a thread, without a budget."""
    response: type
    most_units: int
    """How many parts a request may have (``large_messages``)."""
    produces: bool
    """True for Produce, whose bytes count for the quota."""


class Refused(Exception):
    """Raised if a request has an unknown API or an unsupported version, so that it cannot be answered."""


class Routes:
    """The supported APIs by key.

    ``make_call(version, client_id, connection, api)`` makes the second argument of a handler.
    ``unsupported(correlation_id)`` returns the reply to an ApiVersions request of an unknown version. Any other request
    of an unknown version ends the connection (KIP-511).
    """

    def __init__(
        self,
        rows: Iterable[Row],
        make_call: Callable[[int, str | None, Any, str], Any],
        unsupported: Callable[[int], bytes],
    ) -> None:
        self.make_call = make_call
        self.unsupported = unsupported
        self._routes = {row.api.key: _route(row) for row in rows}

    def find(self, key: int, version: int) -> Route | None:
        """Returns the route of a request; None for ApiVersions of an unknown version. Raises Refused."""
        route = self._routes.get(key)
        if route is None:
            raise Refused(f"API key {key} is not served")
        if route.low <= version <= route.high:
            return route
        if key == API_VERSIONS:
            return None
        raise Refused(f"{route.name} v{version} is not served, only v{route.low}-v{route.high}")


def _route(row: Row) -> Route:
    api: Api = row.api
    return Route(
        name=api.name,
        low=api.min_version,
        high=api.max_version,
        decode=api.decode_request_within,
        handle=row.handle,
        encode=api.encode_response_within,
        encode_apart=api.encode_response_politely,
        response=api.Response,
        most_units=row.most_units,
        produces=api.key == PRODUCE,
    )
