"""A bare client: frames over a socket, messages by kafka-python's codec (made from Kafka's own schemas) or by hand.

The client keeps no state. It sends any version of any request, or bytes that are no request at all.
"""

from __future__ import annotations

import importlib
import socket
import struct
import uuid
from collections.abc import Mapping
from functools import cache
from types import TracebackType
from typing import Any, Self

from harness.protocol import error_codes, kinds
from harness.protocol.entrance import MECHANISM, Entrance, current
from harness.waiting import settled
from harness.witnesses import BARE, used

MODULES = tuple(f"kafka.protocol.{name}" for name in ("admin", "consumer", "metadata", "producer", "sasl"))
MODULES += ("harness.protocol.messages",)
API_VERSIONS = 18
NO_UUID = uuid.UUID(int=0)


class ConnectionClosed(ConnectionError):
    """The broker closed or reset the connection although a reply was due."""


@cache
def message_class(name: str) -> Any:
    """Returns a message class of kafka-python (or of ``harness.protocol.messages``), such as ``ProduceRequest``."""
    for module in MODULES:
        found = getattr(importlib.import_module(module), name, None)
        if found is not None:
            return found
    raise LookupError(f"kafka-python knows no message {name}")


def api_key(name: str) -> int:
    return int(message_class(name + "Request").API_KEY)


def encode_request(
    name: str, version: int, fields: Mapping[str, Any], correlation_id: int = 1, client_id: str = "raw"
) -> bytes:
    """Returns one request as a frame with its length. Structs are dicts."""
    kind = message_class(name + "Request")
    request = _build(kind[None], kind._struct, fields, version)
    request.with_header(correlation_id, client_id)
    return bytes(request.encode(version=version, header=True, framed=True))


def _build(kind: Any, struct_field: Any, values: Mapping[str, Any], version: int) -> Any:
    """Converts dicts into the nested message classes."""
    built = {}
    for name, value in values.items():
        field = struct_field.fields[name]
        if field.is_struct_array() and value is not None:
            built[name] = [_build(field.data_class, field, row, version) for row in value]
        elif field.is_struct() and value is not None:
            built[name] = _build(field.data_class, field, value, version)
        else:
            built[name] = value
    return kind(version=version, **built)


def decode_response(name: str, version: int, frame: bytes) -> Any:
    """Returns a reply (without its length) as a message of kafka-python."""
    return message_class(name + "Response").decode(frame, version=version, header=True)


def request_header(key: int, version: int, correlation_id: int = 1, client_id: str | None = "raw") -> bytes:
    """Returns a request header v1, made by hand."""
    head = struct.pack(">hhi", key, version, correlation_id)
    if client_id is None:
        return head + struct.pack(">h", -1)
    return head + struct.pack(">h", len(client_id)) + client_id.encode()


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


class Wire:
    """A connection to a broker that sends single requests."""

    def __init__(self, address: tuple[str, int], timeout_s: float = 30, entrance: Entrance | None = None) -> None:
        """``entrance``: the user that connects, by default that of the environment.

        Raises:
            ConnectionRefusedError: the broker does not let the user in.
        """
        connected, entrance = socket.create_connection(address, timeout_s), entrance or current()
        try:
            self._use(connected if entrance is None else entrance.over(connected, address[0]))
            if entrance is not None:
                self._say_who(entrance)
        except BaseException:
            connected.close()
            raise

    def _say_who(self, entrance: Entrance) -> None:
        reply = self.ask("SaslHandshake", 1, mechanism=MECHANISM)
        assert reply.error_code == 0, reply
        reply = self.ask("SaslAuthenticate", 2, auth_bytes=entrance.proof)
        if reply.error_code:
            raise ConnectionRefusedError(reply.error_message)

    @classmethod
    def of(cls, connected: socket.socket) -> Self:
        """Returns a client that uses an existing socket."""
        wire = cls.__new__(cls)
        wire._use(connected)
        return wire

    def _use(self, connected: socket.socket) -> None:
        used(BARE)
        self.socket = connected
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation_id = 0

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def send(self, data: bytes) -> None:
        """Sends raw bytes.

        Raises:
            ConnectionClosed: the broker is gone.
        """
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ConnectionClosed(str(error)) from error

    def receive(self) -> bytes:
        """Returns the next reply without its length.

        Raises:
            ConnectionClosed: the broker closed the connection.
            TimeoutError: no reply came in time.
        """
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                chunk = self.socket.recv(size - len(data))
            except ConnectionResetError as error:
                raise ConnectionClosed("reset by the broker") from error
            if not chunk:
                raise ConnectionClosed("closed by the broker")
            data += chunk
        return bytes(data)

    def post(self, name: str, version: int, **fields: Any) -> int:
        """Sends a request without waiting for the reply. Returns its correlation id."""
        self.correlation_id += 1
        self.send(encode_request(name, version, fields, self.correlation_id))
        return self.correlation_id

    def reply(self, name: str, version: int, correlation_id: int | None = None) -> Any:
        """Returns the next reply, which must be that of the given request."""
        frame = self.receive()
        expected = self.correlation_id if correlation_id is None else correlation_id
        (found,) = struct.unpack_from(">i", frame)
        assert found == expected, f"reply to request {found} where that to {expected} was due"
        return decode_response(name, version, frame)

    def ask(self, name: str, version: int, **fields: Any) -> Any:
        """Sends a request and returns the response."""
        self.post(name, version, **fields)
        return self.reply(name, version)

    def closed_by_peer(self, timeout_s: float = 60) -> bool:
        """Returns whether the broker closes the connection without a reply in time."""
        self.socket.settimeout(timeout_s)
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False

    # What many tests need. They do not depend on these versions.

    def versions(self) -> dict[int, tuple[int, int]]:
        """Returns the advertised range of each API key."""
        rows = self.ask("ApiVersions", 0).api_keys
        return {row.api_key: (row.min_version, row.max_version) for row in rows}

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, Any] | None = None
    ) -> None:
        """Creates a topic and waits until its partitions have leaders."""
        rows = [{"name": key, "value": str(value)} for key, value in (configs or {}).items()]
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1}
        topic |= {"assignments": [], "configs": rows}
        reply = self.ask("CreateTopics", 4, topics=[topic], timeout_ms=30_000, validate_only=False)
        assert reply.topics[0].error_code == 0, f"{name}: {reply.topics[0]}"
        for partition in range(partitions):
            self.end_offset(name, partition)

    def alter_topic(self, name: str, **configs: Any) -> None:
        """Sets keys of a topic's configuration."""
        rows = [{"name": key, "config_operation": kinds.Operation.SET, "value": str(configs[key])} for key in configs]
        resource = {"resource_type": kinds.Resource.TOPIC, "resource_name": name, "configs": rows}
        reply = self.ask("IncrementalAlterConfigs", 1, resources=[resource], validate_only=False)
        assert reply.responses[0].error_code == 0, reply

    def metadata(self, name: str) -> Any:
        """Returns the row of one topic, and asks again until the broker knows it."""

        def ask() -> Any:
            reply = self.ask("Metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=False)
            return reply.topics[0]

        return settled(ask, error_codes.TOPIC_NOT_READY, f"topic {name} to appear")

    def topic_id(self, name: str) -> uuid.UUID:
        found: uuid.UUID = self.metadata(name).topic_id
        return found

    def new_producer_id(self) -> int:
        """Returns a producer id for idempotent batches (epoch 0)."""
        fields = {"transactional_id": None, "transaction_timeout_ms": 60_000}
        not_ready = error_codes.COORDINATOR_NOT_READY
        reply = settled(lambda: self.ask("InitProducerId", 2, **fields), not_ready, "a producer id")
        assert reply.error_code == 0, reply
        return int(reply.producer_id)

    def produce(
        self, topic: str, records: bytes, partition: int = 0, *, acks: int = -1, version: int = 9
    ) -> Any:
        """Produces one partition's records. Returns the partition's row of the reply."""
        data = {"name": topic, "partition_data": [{"index": partition, "records": records}]}
        reply = self.ask(
            "Produce", version, transactional_id=None, acks=acks, timeout_ms=30_000, topic_data=[data]
        )
        return reply.responses[0].partition_responses[0]

    def fetch(self, topic: str, offset: int, partition: int = 0, **options: Any) -> Any:
        """Fetches from one partition. Returns the partition's row of the reply."""
        version = options.pop("version", 12)
        row = {
            "partition": partition,
            "fetch_offset": offset,
            "partition_max_bytes": options.pop("partition_max_bytes", 1 << 20),
            "current_leader_epoch": options.pop("current_leader_epoch", -1),
            "last_fetched_epoch": options.pop("last_fetched_epoch", -1),
        }
        defaults = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 50 << 20}
        reply = self.ask(
            "Fetch",
            version,
            topics=[{"topic": topic, "partitions": [row]}],
            **{**defaults, **options},
        )
        assert reply.error_code == 0, reply
        return reply.responses[0].partitions[0]

    def offset(self, topic: str, timestamp: int, partition: int = 0, version: int = 7, **fields: Any) -> Any:
        """Returns an offset of one partition by ListOffsets: -1 latest, -2 earliest, -3 largest timestamp, otherwise by
        time.
        """
        row = {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": -1}
        reply = self.ask(
            "ListOffsets",
            version,
            **{"replica_id": -1, "isolation_level": 0, **fields},
            topics=[{"name": topic, "partitions": [row]}],
        )
        return reply.topics[0].partitions[0]

    def end_offset(self, topic: str, partition: int = 0) -> int:
        """Returns the high watermark, and asks again until the new topic has a leader."""
        not_ready = error_codes.TOPIC_NOT_READY
        row = settled(lambda: self.offset(topic, -1, partition), not_ready, f"a leader of {topic} {partition}")
        assert row.error_code == 0, row
        return int(row.offset)
