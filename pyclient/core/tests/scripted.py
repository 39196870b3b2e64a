"""A scripted broker over real sockets, on the event loop of the test."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl
from collections.abc import Callable, Coroutine
from typing import Any

from pyclient.config import ADMIN, load
from pyclient.core.client import Client
from pyclient.protocol import ApiVersions, Metadata
from pyclient.protocol.apis import ALL, Api, by_key
from pyclient.protocol.frames import decode_request_header
from pyclient.tests.support import PATIENCE_S

SILENCE = object()
"""A handler returns this to send no answer. Later requests are not answered either."""
HANG_UP = object()
"""A handler returns this to close the connection."""
Handler = Callable[[Any, int], Any]


class ScriptedBroker:
    """``handlers``: by API, the function that makes the response from (request, version); bytes are sent unchanged.
    ``requests``: the received requests, as (API, version, message).
    """

    def __init__(self, node: int = 1, tls: ssl.SSLContext | None = None) -> None:
        self.node = node
        self.tls = tls
        self.port = 0
        self.connections = 0
        self.requests: list[tuple[Api, int, Any]] = []
        self.handlers: dict[Api, Handler] = {ApiVersions: versions(), Metadata: self.metadata}
        self.topics: dict[str, int] = {"t": 2}
        self.others: list[ScriptedBroker] = []
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> ScriptedBroker:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.hang_up()

    def hang_up(self) -> None:
        """Closes every connection."""
        for writer in self._writers:
            writer.close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def asked(self, api: Api) -> list[Any]:
        """Returns the messages that were received for an API."""
        return [message for kind, _, message in self.requests if kind is api]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while await self._answer_one(reader, writer):
                pass
        writer.close()
        self._writers.discard(writer)

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        size = int.from_bytes(await reader.readexactly(4), "big")
        frame = await reader.readexactly(size)
        header = decode_request_header(frame, 0, size)
        api, version = by_key(header.api_key), header.api_version
        request = api.decode_request(version, frame, header.position, size)
        self.requests.append((api, version, request))
        answer = self.handlers[api](request, version)
        if answer is HANG_UP:
            return False
        if answer is SILENCE:
            await reader.read()
            return False
        if answer is not None:
            if not isinstance(answer, bytes):
                answer = api.encode_response(version, header.correlation_id, answer)
            writer.write(b"".join(answer) if isinstance(answer, list) else answer)
        return True

    def metadata(self, request: Metadata.Request, version: int) -> Metadata.Response:
        """Returns metadata with these topics and their numbers of partitions. A negative number is an error code."""
        names = self.topics if request.topics is None else [each.name for each in request.topics]
        brokers = [self, *self.others]
        row = Metadata.Response.MetadataResponseBroker
        return Metadata.Response(
            brokers=[row(node_id=b.node, host="127.0.0.1", port=b.port) for b in brokers],
            cluster_id="c",
            controller_id=self.node,
            topics=[topic(name, self.topics.get(name, -3), self.node) for name in names],
        )


def topic(
    name: str, partitions: int, leader: int, epoch: int = 0, topic_id: bytes = bytes(16)
) -> Metadata.Response.MetadataResponseTopic:
    """Returns a topic of a response. A negative number of partitions is an error code."""
    kind = Metadata.Response
    rows = [
        kind.MetadataResponsePartition(
            partition_index=number,
            leader_id=leader,
            leader_epoch=epoch,
            replica_nodes=[leader],
            isr_nodes=[leader],
        )
        for number in range(max(0, partitions))
    ]
    error = -partitions if partitions < 0 else 0
    return kind.MetadataResponseTopic(
        error_code=error, name=name, topic_id=topic_id, partitions=rows
    )


def versions(most: dict[Api, int] | None = None) -> Handler:
    """Returns a handler of ApiVersions, which answers with every version of every API, or with at most these."""

    def answer(request: Any, version: int) -> ApiVersions.Response:
        row = ApiVersions.Response.ApiVersion
        rows = [
            row(
                api_key=api.key,
                min_version=api.min_version,
                max_version=(most or {}).get(api, api.max_version),
            )
            for api in ALL
        ]
        return ApiVersions.Response(api_keys=rows)

    return answer


@contextlib.asynccontextmanager
async def client_of(*addresses: str, **settings: Any):
    """Returns a client with short back-offs."""
    quick = {"retry_backoff_ms": 1, "reconnect_backoff_ms": 1, "retry_backoff_max_ms": 5}
    quick |= {"reconnect_backoff_max_ms": 5, **settings}
    client = Client(
        load(ADMIN, list(addresses), None, quick), loop=asyncio.get_running_loop()
    )
    try:
        yield client
    finally:
        await client.close()


def on_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs a test on a loop of its own."""

    @functools.wraps(test)
    def run(*arguments: Any, **keywords: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **keywords), PATIENCE_S))

    return run
