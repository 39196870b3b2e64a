"""Many clients at once, each a connection of its own: ``python -m conformance.scenarios.cluster.many``.

    many.py TOPIC PARTITIONS CLIENTS FIRST ADDRESS...

Every client connects to the leader of its partition and asks for its API versions. It waits until all clients of the
process are connected, and until stdin says that others have started. Then each client writes its own record with
acks=all, and reads it back. The program prints one line: how many clients succeeded.
"""

from __future__ import annotations

import asyncio
import resource
import struct
import sys
from typing import Any

from conformance.data import batches
from harness.protocol.wire_client import decode_response, encode_request

CONNECTING_AT_ONCE = 100
TIMEOUT_S = 240


class Client:
    """A connection that numbers its requests, for many clients in one thread."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.correlation = 0

    async def connect(self, host: str, port: int) -> None:
        """Connects, and asks for the broker's API versions."""
        self.reader, self.writer = await asyncio.open_connection(host, port)
        reply = await self.ask("ApiVersions", 0)
        assert reply.error_code == 0, reply

    async def ask(self, name: str, version: int, **fields: Any) -> Any:
        """Sends a request and returns its reply."""
        self.correlation += 1
        self.writer.write(encode_request(name, version, fields, self.correlation, f"client-{self.number}"))
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        frame = await self.reader.readexactly(size)
        assert struct.unpack_from(">i", frame) == (self.correlation,)
        return decode_response(name, version, frame)

    async def write_and_read(self, topic: str, partition: int) -> None:
        """Writes one record of this client and reads it back."""
        value = b"the record of client %d" % self.number
        data = [{"index": partition, "records": batches.batch([value])}]
        rows = [{"name": topic, "partition_data": data}]
        reply = await self.ask("Produce", 9, transactional_id=None, acks=-1, timeout_ms=60_000, topic_data=rows)
        written = reply.responses[0].partition_responses[0]
        assert written.error_code == 0, written
        asked = {"partition": partition, "fetch_offset": written.base_offset, "partition_max_bytes": 1}
        asked |= {"current_leader_epoch": -1, "last_fetched_epoch": -1}
        fields = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1}
        reply = await self.ask("Fetch", 12, topics=[{"topic": topic, "partitions": [asked]}], **fields)
        found = reply.responses[0].partitions[0]
        assert found.error_code == 0, found
        assert value in found.records


async def run(topic: str, partitions: int, clients: int, first: int, leaders: list[tuple[str, int]]) -> int:
    """Runs all clients; returns how many have written and read."""
    crowd = [Client(number) for number in range(first, first + clients)]
    gate = asyncio.Semaphore(CONNECTING_AT_ONCE)

    async def connect(client: Client) -> None:
        async with gate:
            await client.connect(*leaders[client.number % partitions])

    await asyncio.gather(*map(connect, crowd))
    print("connected", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await asyncio.gather(*(client.write_and_read(topic, client.number % partitions) for client in crowd))
    for client in crowd:
        client.writer.close()
    return len(crowd)


def main() -> None:
    """Runs the command line."""
    topic, partitions, clients, first, *addresses = sys.argv[1:]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    pairs = [(host, int(port)) for host, _, port in (address.rpartition(":") for address in addresses)]
    work = asyncio.wait_for(run(topic, int(partitions), int(clients), int(first), pairs), TIMEOUT_S)
    print("done", asyncio.run(work), flush=True)


if __name__ == "__main__":
    main()
