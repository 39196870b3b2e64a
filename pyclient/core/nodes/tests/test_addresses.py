"""A name with several addresses: the next attempt takes the next one."""

from __future__ import annotations

import asyncio
import socket

from pyclient.config import ADMIN, load
from pyclient.core.client import Client
from pyclient.core.nodes import transport
from pyclient.core.nodes.addresses import Addresses
from pyclient.core.tests.scripted import ScriptedBroker
from pyclient.tests.support import PATIENCE_S

A, B, C = ((socket.AF_INET, (host, 9092)) for host in ("10.0.0.1", "10.0.0.2", "10.0.0.3"))


def test_each_attempt_begins_with_the_address_not_tried_for_longest():
    addresses = Addresses()
    begun = []
    for _ in range(4):
        first, *_ = addresses.ordered([A, B, C])
        addresses.begin(first[1])
        begun.append(first)
    assert begun == [A, B, C, A]


def test_a_working_address_is_tried_first_and_new_ones_before_failed_ones():
    addresses = Addresses()
    addresses.begin(A[1])
    addresses.begin(B[1])
    addresses.works()
    assert addresses.ordered([A, B]) == [B, A]
    assert addresses.ordered([A, C]) == [C, A]
    assert addresses.ordered([B]) == [B]
    assert addresses.ordered([A, B]) == [A, B], "what the name no longer means is forgotten"


def test_a_client_connects_although_the_first_address_is_dead(monkeypatch):
    """The first address never answers and uses up the first attempt. The next attempt begins with the second."""

    async def work():
        async with ScriptedBroker() as broker:
            dead = ("127.0.0.1", 1)
            tried = []

            async def resolve(loop, host, port):
                return [(socket.AF_INET, dead), (socket.AF_INET, ("127.0.0.1", broker.port))]

            async def connect(loop, family, address, *options):
                tried.append(address)
                if address == dead:
                    await asyncio.Event().wait()
                return await reach(loop, family, address, *options)

            reach = transport.stream.connect
            monkeypatch.setattr(transport.stream, "resolve", resolve)
            monkeypatch.setattr(transport.stream, "connect", connect)
            settings = {"socket.connection.setup.timeout.ms": 50, "reconnect.backoff.ms": 1}
            client = Client(load(ADMIN, broker.address, settings), loop=asyncio.get_running_loop())
            try:
                await client.start(PATIENCE_S)
            finally:
                await client.close()
            assert tried[0] == dead
            assert ("127.0.0.1", broker.port) in tried[1:3]

    asyncio.run(work())
