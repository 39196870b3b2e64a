"""Quotas of a running broker: they hold on open connections at once, after a start, and until they are removed."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path
from typing import Any

from pybroker.cluster.decisions.plan import NewTopic
from pybroker.cluster.decisions.quota_changes import QuotaChange
from pybroker.replication.tests.harness import batch
from pybroker.server import Broker
from pybroker.tests.test_server import in_loop, make
from pybroker.tests.waiting import PATIENCE_S
from pyclient.protocol import Produce
from pyclient.protocol.apis import Api
from pyclient.protocol.frames import decode_response_header

VERSION = 9
RATE = "max.connection.creation.rate"


class Client:
    """A connection that asks one request after the other."""

    @classmethod
    async def connect(cls, broker: Broker, id: str = "app") -> Client:
        client = cls()
        client.id = id
        [(host, port)] = broker.addresses()
        client.reader, client.writer = await asyncio.open_connection(host, port)
        return client

    id: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, api: Api, version: int, request: Any) -> Any:
        self.writer.write(b"".join(map(bytes, _parts(api.encode_request(version, 1, self.id, request)))))
        async with asyncio.timeout(PATIENCE_S):
            (length,) = struct.unpack(">i", await self.reader.readexactly(4))
            data = await self.reader.readexactly(length)
        header = decode_response_header(api, version, data, 0, len(data))
        return api.decode_response(version, data, header.position, len(data))

    async def produce(self, size: int = 5000) -> int:
        """How long this client is told to wait."""
        records = bytes(batch(b"x" * size))
        partition = Produce.Request.PartitionProduceData(index=0, records=records)
        topic = Produce.Request.TopicProduceData(name="t", partition_data=[partition])
        response = await self.ask(Produce, VERSION, Produce.Request(acks=1, timeout_ms=1000, topic_data=[topic]))
        assert response.responses[0].partition_responses[0].error_code == 0
        return int(response.throttle_time_ms)


def _parts(frame: Any) -> list[Any]:
    return [frame] if isinstance(frame, bytes) else frame


async def set_quota(broker: Broker, entity: tuple[tuple[str, str | None], ...], **values: float | None) -> None:
    results = await broker.controller.alter_quotas([QuotaChange(entity, list(values.items()))])
    assert not any(results.values())


ANYBODY = (("user", None),)


def test_a_quota_holds_on_open_connections_from_its_answer_to_its_removal(tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = make(tmp_path)
        await broker.start()
        await broker.controller.create_topics([NewTopic("t", 1, 1)])
        client = await Client.connect(broker)
        assert await client.produce() == 0
        assert broker.quotas is broker.net.throttling is None
        await set_quota(broker, ANYBODY, producer_byte_rate=500.0)
        assert await client.produce() > 0
        await set_quota(broker, ANYBODY, producer_byte_rate=None, request_percentage=50.0)
        assert await client.produce() == 0  # the client was muted, and is no longer
        await set_quota(broker, ANYBODY, request_percentage=None)
        assert await client.produce() == 0
        assert broker.quotas is broker.net.throttling is None
        client.writer.close()
        await broker.stop()

    in_loop(scenario)


def test_a_user_gains_nothing_by_more_connections_or_made_up_client_ids(tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = make(tmp_path)
        await broker.start()
        await broker.controller.create_topics([NewTopic("t", 1, 1)])
        await set_quota(broker, (("user", "ANONYMOUS"),), producer_byte_rate=2000.0)
        clients = [await Client.connect(broker, f"made up {number}") for number in range(12)]
        delays = [await client.produce() for client in clients]
        assert delays[:3] == [0, 0, 0]  # 20,000 bytes at once
        assert delays[3] > 0
        assert sorted(delays) == delays
        assert len(broker.quotas._produce) == 1
        for client in clients:
            client.writer.close()
        await broker.stop()

    in_loop(scenario)


def test_quotas_hold_after_a_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = make(tmp_path)
        await broker.start()
        await broker.controller.create_topics([NewTopic("t", 1, 1)])
        await set_quota(broker, (("user", "ANONYMOUS"), ("client-id", "app")), producer_byte_rate=100.0)
        await set_quota(broker, (("ip", "127.0.0.1"),), connection_creation_rate=7.0)
        await broker.stop()
        broker = make(tmp_path)
        await broker.start()
        client = await Client.connect(broker)
        assert await client.produce() > 0
        assert broker.net.arrivals is not None
        await set_quota(broker, (("ip", "127.0.0.1"),), connection_creation_rate=None)
        assert broker.net.arrivals is None
        client.writer.close()
        await broker.stop()

    in_loop(scenario)


def test_the_rates_of_connections_are_settings_that_can_be_changed(tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = make(tmp_path, **{f"listener.name.plaintext.{RATE}": "3"})
        await broker.start()
        arrivals = broker.net.arrivals
        assert arrivals is not None
        assert (arrivals.rates._limited, arrivals.rates._is_broker_limited) == ({"PLAINTEXT"}, False)
        broker.config.override({}, {RATE: "5"})
        assert arrivals.rates._of_broker.bound == 5
        assert arrivals.rates._of_listeners["PLAINTEXT"].bound == 3
        broker.config.override({f"listener.name.plaintext.{RATE}": "2"}, {})
        assert arrivals.rates._of_listeners["PLAINTEXT"].bound == 2
        assert not arrivals.rates._is_broker_limited
        await broker.stop()
        broker = make(tmp_path)
        await broker.start()
        assert broker.net.arrivals is None
        broker.config.override({}, {RATE: "5"})
        assert broker.net.arrivals is not None
        broker.config.override({}, {})
        assert broker.net.arrivals is None
        await broker.stop()

    in_loop(scenario)
