"""Forwards requests that only the controller can serve (KIP-590).

The request travels unchanged, in an Envelope. The controller handles it as if the client had sent it
there. The controller's answer includes the version of the metadata after the request. The forwarding
broker waits until its own metadata has that version, so a client that creates a topic then finds it.

If there is no controller, or it cannot be reached, the broker tries again. After ``PATIENCE_S`` the
client gets NOT_CONTROLLER, if its response has a field for it.
"""

from __future__ import annotations

import asyncio
import functools
import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar, cast

from cy.wire.messages import Message
from pybroker.handlers.common import identity
from pybroker.handlers.common.call import Broker, Call, ForwardedCall
from pybroker.handlers.common.pacing import settled
from pyclient.protocol import Envelope, errors
from pyclient.protocol.apis import Api, by_key
from pyclient.protocol.frames import decode_request_header, decode_response_header

PATIENCE_S: Final = 20.0
RETRY_S: Final = 0.05
CATCHING_UP_S: Final = 10.0

Handler = Callable[[Any, Call], Any]
T = TypeVar("T")
R = TypeVar("R")

_length = struct.Struct(">i")
_version = struct.Struct(">q")


class Forwarding:
    """Forwards requests of this broker and its clients to the controller."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def ask(
        self, api: Api, version: int, client_id: str | None, request: Message, asker: Call | None = None
    ) -> Message:
        """Returns the controller's response. Raises NotController if none could be reached.

        ``asker`` is the client's context, None if this broker asks for itself. If the connection is lost, the request
        is sent again, as in Kafka. Then the answer may be an error because the first attempt has already succeeded.
        """
        frame = _joined(api.encode_request(version, 0, client_id, request))
        principal, host = None, b""
        if asker is not None and not asker.is_of_broker:
            principal, host = identity.encoded(asker.principal, asker.host, is_by_token=asker.is_by_token)
        envelope = Envelope.Request(request_data=frame, request_principal=principal, client_host_address=host)
        answer = await self._ask(api, envelope)
        made, data = _version.unpack_from(answer)[0], answer[_version.size :]
        await self._catch_up(made)
        header = decode_response_header(api, version, data, 0, len(data))
        return api.decode_response(version, data, header.position, len(data))

    async def _ask(self, api: Api, envelope: Envelope.Request) -> bytes:
        loop = self._broker.loop
        deadline = loop.time() + PATIENCE_S
        while loop.time() < deadline:
            controller = self._broker.metadata.image.controller_id
            if controller != self._broker.node_id:
                answer = await self._try(api, controller, envelope)
                if answer is not None:
                    return answer
            elif self._broker.controller.is_controller:
                break
            await asyncio.sleep(RETRY_S)
        raise errors.NotController("the controller could not be reached")

    async def _try(self, api: Api, controller: int, envelope: Envelope.Request) -> bytes | None:
        """Asks the controller once; returns None if the caller should ask again.

        Each API has its own connection, so that a long deletion delays no other API.
        """
        try:
            answer = await self._broker.peers.request(controller, envelope, purpose=f"forwarded {api.name}")
        except (errors.BrokerNotAvailable, errors.NetworkException):
            return None
        except errors.RequestTimedOut as error:
            raise errors.NotController(str(error)) from error
        response = cast(Envelope.Response, answer)
        if response.error_code == errors.NotController.code:
            return None
        if response.error_code or response.response_data is None:
            raise errors.NotController(f"the controller answered with error {response.error_code}")
        return bytes(response.response_data)

    async def _catch_up(self, version: int) -> None:
        try:
            async with asyncio.timeout(CATCHING_UP_S):
                await self._broker.metadata.until(lambda image: image.version >= version)
        except TimeoutError:
            return  # the controller's answer is valid, though this broker's metadata does not show it yet


def forwarded(api: Api, handle: Callable[[T, Call], Awaitable[R]]) -> Callable[[T, Call], Awaitable[R]]:
    """Wraps ``handle`` so that it runs only on the controller; any other broker forwards the request."""

    @functools.wraps(handle)
    async def route(request: Any, call: Call) -> Any:
        if not call.broker.controller.is_controller:
            try:
                return await call.broker.forwarding.ask(api, call.version, call.client_id, request, call)
            except errors.NotController:
                pass  # this broker is the controller by now, or its handler puts the error into the response
        return await handle(request, call)

    return route


async def open_envelope(
    envelope: Envelope.Request, call: Call, handlers: Mapping[Api, Handler]
) -> bytes:
    """Handles a client's request that another broker has forwarded, with that client's rights.

    Raises NotController, InvalidRequest, PrincipalDeserializationFailure.
    """
    if not call.broker.controller.is_controller:
        raise errors.NotController("another broker is the controller")
    data = bytes(envelope.request_data)
    header = decode_request_header(data, 0, len(data))
    api = by_key(header.api_key)
    if api is None or api not in handlers:
        raise errors.InvalidRequest(f"API {header.api_key} cannot be forwarded to the controller")
    request = api.decode_request(header.api_version, data, header.position, len(data))
    context = (call.broker, header.api_version, header.client_id, call.connection)
    inner = Call(*context, api.name)
    principal = envelope.request_principal
    if principal is not None and (principal or call.broker.authorizer is not None):  # older brokers sent none
        who = identity.decoded(principal, envelope.client_host_address)
        inner = ForwardedCall(*context, *who, api.name)
    response = await settled(handlers[api](request, inner))
    frame = _joined(api.encode_response(header.api_version, 0, response))
    return _version.pack(call.broker.metadata.image.version) + frame


def _joined(frame: Any) -> bytes:
    """Joins the pieces of a frame, without its length."""
    data = frame if isinstance(frame, bytes) else b"".join(frame)
    return data[_length.size :]


