"""Produce with acks=0 has no response: the request completes when its bytes are sent, and not before."""

from __future__ import annotations

import asyncio
import socket

from cy.wire.frames import ReceiveMemory
from pyclient.core.nodes.connection import Connection, Pending
from pyclient.core.nodes.transport import Transport
from pyclient.protocol import Produce

SIZE = 1 << 20


def produce(done, deadline=float("inf")):
    rows = [Produce.Request.PartitionProduceData(index=0, records=bytes(SIZE))]
    topic = Produce.Request.TopicProduceData(name="t", topic_id=bytes(16), partition_data=rows)
    message = Produce.Request(acks=0, topic_data=[topic])
    return Pending(Produce, message, lambda response, error: done.append(error), deadline, None)


async def read(loop, sock, count):
    while count > 0:
        data = await loop.sock_recv(sock, min(count, 1 << 16))
        assert data
        count -= len(data)


def make(loop):
    ours, theirs = socket.socketpair()
    for each in (ours, theirs):
        each.setblocking(False)
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
    connection = Connection("c")
    return connection, Transport(loop, ours, ReceiveMemory(), connection, lambda *_: None), theirs


def test_a_request_without_response_completes_when_it_has_been_written():
    async def work():
        loop, done = asyncio.get_running_loop(), []
        connection, transport, theirs = make(loop)
        for _ in range(3):
            transport.send(produce(done), 9)
        for _ in range(5):
            await asyncio.sleep(0)
        assert done == []
        assert len(connection) == 3
        await read(loop, theirs, SIZE + (1 << 10))
        while not done:
            await asyncio.sleep(0)
        assert len(done) + len(connection) == 3
        assert len(connection) > 0
        await read(loop, theirs, SIZE)
        await read(loop, theirs, SIZE - (1 << 10))
        while len(done) < 3:
            await asyncio.sleep(0)
        assert done == [None] * 3
        transport.close()
        theirs.close()

    asyncio.run(work())


def test_a_request_without_response_fails_if_the_connection_dies_before_it_is_written():
    async def work():
        loop, done = asyncio.get_running_loop(), []
        connection, transport, theirs = make(loop)
        requests = [produce(done, deadline) for deadline in (7.0, 5.0)]
        for request in requests:
            transport.send(request, 9)
        assert connection.earliest_deadline() == 5.0
        transport.close()
        assert connection.take_all() == requests
        assert len(connection) == 0
        assert done == []
        theirs.close()

    asyncio.run(work())
