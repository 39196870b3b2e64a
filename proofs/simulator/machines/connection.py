"""Connections between simulated processes carry requests as objects, in order, as a socket does.

Both ends implement production's interfaces: ``PeerConnection`` (which ``net.peer`` drives) and ``net.connection``. The
latter sends replies in the order of the requests, and a handler may pause it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any, cast

from proofs.simulator.machines.disk import Slice
from pybroker import waiting
from pybroker.cluster import peer_secret
from pybroker.handlers import ROWS
from pybroker.handlers.common.call import Call
from pyclient.protocol import Fetch, Produce, errors
from pyclient.protocol.answers import OnDone

if TYPE_CHECKING:
    from proofs.simulator.machines.cluster import Cluster, Process

HANDLERS = {row.api.key: row.handle for row in ROWS}


async def connect(cluster: Cluster, client: Process, place: int, on_lost: Callable[[Any], object]) -> ClientEnd:
    """Opens a connection of ``client`` to the broker at ``place``, and waits as long as nothing answers. Raises
    OSError.
    """
    answer: asyncio.Future[ServerEnd] = client.loop.create_future()
    there = cluster.network.channel(client.place, place)
    back = cluster.network.channel(place, client.place)
    end = ClientEnd(client, there, on_lost)

    def accept() -> None:
        server = cluster.serving(place)
        if server is None:
            if cluster.is_machine_up(place):
                back.send(refuse)
            return
        end.other = ServerEnd(server, end, back, client.node_id)
        cluster.connected(end)
        back.send(client.loop.call_soon, accepted)

    def accepted() -> None:
        if not answer.done():
            answer.set_result(end.other)

    def refuse() -> None:
        client.loop.call_soon(refused)

    def refused() -> None:
        if not answer.done():
            answer.set_exception(ConnectionRefusedError(f"nobody listens at broker {place}"))

    there.send(accept)
    await answer
    if end.is_closed:
        raise ConnectionResetError(f"broker {place} has closed the connection already")
    return end


class ClientEnd:
    """The client's end, for the broker a ``PeerConnection``."""

    def __init__(self, process: Process, channel: Any, on_lost: Callable[[Any], object]) -> None:
        self.process = process
        self.other: ServerEnd = None  # type: ignore[assignment]
        self.is_closed = False
        self._channel = channel
        self._on_lost = on_lost
        self._in_flight: deque[OnDone] = deque()

    @staticmethod
    def version_of(api: Any) -> int:
        """Returns the newest version, because all brokers have the same."""
        return int(api.max_version)

    def send(self, api: Any, version: int, message: Any, on_done: OnDone) -> None:
        """Sends a request; ``on_done(response, error)`` is called once."""
        self._in_flight.append(on_done)
        if api is Produce:
            message = copied(message)
        self._channel.send(self.other.receive, api, version, message)

    def receive(self, response: Any) -> None:
        """Takes a response, in a turn of the process."""
        if not self.is_closed and not self.process.loop.is_dead:
            self.process.loop.call_soon(self._deliver, response)

    def _deliver(self, response: Any) -> None:
        if not self.is_closed:
            self._in_flight.popleft()(response, None)

    def lose(self, cause: Exception | str) -> None:
        """Closes this end, or reacts to the close of the other one."""
        if self.is_closed:
            return
        self.is_closed = True
        self._channel.send(self.other.ended)
        self._on_lost(self)
        lost, self._in_flight = self._in_flight, deque()
        for on_done in lost:
            on_done(None, errors.NetworkException(str(cause)))

    def was_reset(self) -> None:
        """Reacts to the loss of the other end."""
        if not self.process.loop.is_dead:
            self.process.loop.call_soon(self.lose, "reset by the other end")


class Reply:
    """The place of a reply among those of its connection."""

    __slots__ = ("api", "ready", "request", "response", "source")

    def __init__(self, api: Any, request: Any) -> None:
        self.api = api
        self.request = request
        self.ready = False
        self.response: Any = None
        self.source: Any = None


class ServerEnd:
    """The broker's end, for handlers a ``Connection``."""

    listener_name = "PLAINTEXT"
    client_software_name = client_software_version = "simulated"
    authentication: peer_secret.Server | None = None
    sasl: Any = None
    share: Any = None

    def __init__(self, process: Process, client: ClientEnd, channel: Any, broker_id: int | None) -> None:
        self.process = process
        self.client = client
        self.broker_id = broker_id
        self.principal = client.process.principal
        self.pinned = False
        self.id = f"{process.node_id}-{client.process.name}"
        self.local_address = self.peer_address = ("10.0.0.1", 9092)
        self.is_closed = False
        self._channel = channel
        self._replies: deque[Reply] = deque()
        self._held = 0
        self._unread: deque[tuple[Any, int, Any]] = deque()
        self._call: Call | None = None

    def hold(self) -> None:
        """Stops reading requests until ``release`` has been called as often."""
        self._held += 1

    def release(self) -> None:
        """Ends a ``hold``."""
        self._held -= 1
        if not self._held and self._unread:
            self.process.loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        while self._unread and not self._held:
            self._serve(*self._unread.popleft())

    def receive(self, api: Any, version: int, message: Any) -> None:
        """Serves a received request in a turn of the process."""
        if self.process.loop.is_dead:
            if self.process.cluster.is_machine_up(self.process.place):
                self._channel.send(self.client.was_reset)
        elif not self.is_closed:
            self._unread.append((api, version, message))
            self.process.loop.call_soon(self._read_on)

    def _serve(self, api: Any, version: int, message: Any) -> None:
        if self.is_closed:
            return
        reply = Reply(api, message)
        self._replies.append(reply)
        try:
            result = HANDLERS[api.key](message, self._call_of(api, version))
            if iscoroutine(result):
                result = waiting.start(result, cast(Any, self.process.loop))
        except errors.KafkaError:
            self.close()
            return
        if asyncio.isfuture(result):
            reply.source = result
            result.add_done_callback(partial(self._on_done, reply))
        else:
            self._ready(reply, result)

    def _call_of(self, api: Any, version: int) -> Call:
        """Returns the call context. Consecutive requests of an API share it, with the decisions that it caches."""
        if self._call is None or (self._call.api, self._call.version) != (api.name, version):
            self._call = Call(self.process.broker, version, "simulated", self, api.name)
        return self._call

    def _on_done(self, reply: Reply, future: asyncio.Future[Any]) -> None:
        if self.is_closed or future.cancelled():
            return
        error = future.exception()
        if isinstance(error, errors.KafkaError):
            self.close()
        elif error is not None:
            raise error
        else:
            self._ready(reply, future.result())

    def _ready(self, reply: Reply, response: Any) -> None:
        reply.ready, reply.response = True, response
        while self._replies and self._replies[0].ready:
            first = self._replies.popleft()
            if first.response is not None:
                if first.api is Fetch:
                    in_bytes(first.response)
                self.process.cluster.sent(self.process, first.request, first.response)
                self._channel.send(self.client.receive, first.response)

    def ended(self) -> None:
        """Reacts to the client's close."""
        if not self.process.loop.is_dead:
            self.process.loop.call_soon(self._end)

    def close(self) -> None:
        """Closes this end."""
        if not self.is_closed:
            self._end()
            self._channel.send(self.client.was_reset)

    def _end(self) -> None:
        self.is_closed = True
        self._unread.clear()
        replies, self._replies = self._replies, deque()
        for reply in replies:
            if reply.source is not None and not reply.source.done():
                reply.source.cancel()

    def process_ended(self) -> None:
        """Closes the connection when the process ends, as the operating system does."""
        self.is_closed = True
        self._channel.send(self.client.was_reset)


def copied(request: Any) -> Any:
    """Copies a Produce request with its bytes, because the broker writes into them and clients send them again."""
    topics = Produce.Request
    return topics(
        transactional_id=request.transactional_id,
        acks=request.acks,
        timeout_ms=request.timeout_ms,
        topic_data=[
            topics.TopicProduceData(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_data=[
                    topics.PartitionProduceData(index=each.index, records=bytearray(each.records))
                    for each in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ],
    )


def in_bytes(response: Any) -> None:
    """Replaces the records of a Fetch response by their bytes at this time."""
    for topic in response.responses:
        for data in topic.partitions:
            if isinstance(data.records, Slice):
                data.records = data.records.read()
