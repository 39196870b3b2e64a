"""Every API and version against Kafka's own generated classes, in one JVM (KafkaWitness.java).

For each random message: our bytes are Kafka's bytes, Kafka decodes them to the message it encoded,
and we decode them to the message we encoded. Requests and responses are compared as whole frames,
with their headers.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pytest

from cy.wire.codec import Codec
from cy.wire.messages import Message
from harness import peers
from pyclient.errors import STALE_METADATA
from pyclient.protocol import apis, errors, records
from pyclient.protocol.frames import decode_request_header, decode_response_header
from pyclient.protocol.schema import Body, read_bodies, read_head
from pyclient.protocol.tests.random_messages import Source

WITNESS = Path(__file__).parent / "KafkaWitness.java"
SEED = int(os.environ.get("PYBROKER_TEST_SEED", "2011"))
_MESSAGES = "org.apache.kafka.common.message"
_GROUP = "org.apache.kafka.coordinator.group.generated"
_TXN = "org.apache.kafka.coordinator.transaction.generated"
#: Kafka's class of a record's version, and the version of that class
_KEYS = {
    ("OffsetCommitKey", 0): (f"{_GROUP}.LegacyOffsetCommitKey", 0),
    ("OffsetCommitKey", 1): (f"{_GROUP}.OffsetCommitKey", 0),
    ("GroupMetadataKey", 2): (f"{_GROUP}.GroupMetadataKey", 0),
}
_PACKAGES = {"Offset": _GROUP, "Group": _GROUP, "ConsumerGroup": _GROUP, "Transaction": _TXN}


@dataclass(frozen=True)
class Subject:
    """One message class in one version."""

    kind: str
    api: apis.Api | None
    name: str
    version: int
    java: str
    java_version: int

    def __str__(self) -> str:
        return f"{self.name} {self.kind} {self.version}"

    @cached_property
    def body(self) -> Body:
        if self.api is not None:
            return read_bodies(self.api.head)[self.kind]
        return read_bodies(read_head(records._PATHS[self.name]))["fields"]

    @property
    def message(self) -> type[Message]:
        if self.api is None:
            return getattr(records, self.name)
        return self.api.Request if self.kind == "request" else self.api.Response

    def frame(self, correlation_id: int, message: Any) -> bytes:
        """Returns our frame; for a record, the message without its version."""
        if self.api is None:
            return self.message.encode(self.version, message)[2:]
        if self.kind == "request":
            frame = self.api.encode_request(self.version, correlation_id, "me", message)
        else:
            frame = self.api.encode_response(self.version, correlation_id, message)
        assert isinstance(frame, bytes)
        return frame

    def decoded(self, correlation_id: int, frame: bytes) -> Any:
        """Decodes our frame, and checks its header."""
        end = len(frame)
        if self.api is None:
            return self.message.decode(self.version.to_bytes(2, "big") + frame)
        codec: Codec = getattr(self.api, f"{self.kind}_codec")
        if self.kind == "request":
            header = decode_request_header(frame, 4, end)
            assert (header.api_key, header.api_version) == (self.api.key, self.version)
            assert header.client_id == "me"
        else:
            header = decode_response_header(self.api, self.version, frame, 4, end)
        assert header.correlation_id == correlation_id
        return codec.decode(self.version, frame, header.position, end)

    def row(self, correlation_id: int, frame: bytes, as_json: dict[str, Any]) -> str:
        key = self.api.key if self.api is not None else -1
        told = (self.kind, self.java, key, self.java_version, correlation_id, "me")
        text = json.dumps(as_json, ensure_ascii=False, separators=(",", ":"))
        return "\t".join([*map(str, told), base64.b64encode(frame).decode(), text]) + "\n"


def subjects() -> Iterator[Subject]:
    for api in apis.ALL:
        for kind in ("request", "response"):
            java = f"{_MESSAGES}.{api.name}{kind.title()}Data"
            for version in range(api.min_version, api.max_version + 1):
                yield Subject(kind, api, api.name, version, java, version)
    for name in records.__all__:
        message = getattr(records, name)
        package = next((_PACKAGES[p] for p in _PACKAGES if name.startswith(p)), _MESSAGES)
        for version in range(message.min_version, message.max_version + 1):
            is_key = name.startswith("ConsumerGroup") and name.endswith("Key")  # ours: the record's type
            java = _KEYS.get((name, version), (f"{package}.{name}", 0 if is_key else version))
            yield Subject("record", None, name, version, *java)


def feed(count: int, write: Callable[[bytes], Any]) -> int:
    """Sends ``count`` messages of every subject to Kafka's classes. Returns their number."""
    sent = 0
    for subject in subjects():
        source = Source(SEED, subject.body, subject.message, subject.version)
        for _ in range(count):
            message, as_json = source.next()
            frame = subject.frame(sent, message)
            assert subject.decoded(sent, frame) == message, f"{subject}: {message}"
            write(subject.row(sent, frame, as_json).encode())
            sent += 1
    return sent


def witnessed(folder: Path, send: Callable[[Callable[[bytes], Any]], int]) -> list[str]:
    """Returns the differences that Kafka's classes find in the messages that ``send`` writes."""
    with (folder / "differences").open("w+", encoding="utf-8") as found:
        command = [*peers.jvm("512m"), str(WITNESS)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=found) as witness:
            assert witness.stdin is not None
            sent = send(witness.stdin.write)
            witness.stdin.close()
            assert witness.wait(timeout=600) == 0
        found.seek(0)
        *differences, read = found.read().splitlines()
    assert int(read) == sent
    return differences


def compare(count: int, folder: Path) -> None:
    differences = witnessed(folder, partial(feed, count))
    assert not differences, f"seed {SEED}: {len(differences)} differ, first:\n{differences[0]}"


@pytest.mark.nightly
def test_every_message_has_the_bytes_of_kafkas_classes(tmp_path: Path) -> None:
    compare(60, tmp_path)


@pytest.mark.campaign
@pytest.mark.timeout(3600)
def test_thousands_of_each_message_have_the_bytes_of_kafkas_classes(tmp_path: Path) -> None:
    compare(int(os.environ.get("PYBROKER_TEST_MESSAGES", "2000")), tmp_path)


@pytest.mark.nightly
def test_the_comparison_detects_a_wrong_byte_and_a_wrong_field(tmp_path: Path) -> None:
    fetch = next(s for s in subjects() if (s.name, s.kind, s.version) == ("Fetch", "request", 12))
    message, as_json = Source(SEED, fetch.body, fetch.message, 12).next()
    frame = fetch.frame(7, message)
    rows = [
        fetch.row(7, frame, as_json),
        fetch.row(7, frame[:-1] + bytes([frame[-1] ^ 1]), as_json),
        fetch.row(7, frame, as_json | {"minBytes": as_json["minBytes"] ^ 1}),
    ]

    def send(write: Callable[[bytes], Any]) -> int:
        write("".join(rows).encode())
        return len(rows)

    assert len(witnessed(tmp_path, send)) == 2


def test_every_api_and_version_is_compared() -> None:
    compared = {(s.api.key, s.version) for s in subjects() if s.api is not None}
    assert compared == {
        (a.key, v) for a in apis.ALL for v in range(a.min_version, a.max_version + 1)
    }


@pytest.fixture(scope="module")
def tables() -> list[list[str]]:
    """Returns Kafka's own rows of APIs and errors."""
    command = [*peers.jvm(), str(WITNESS), "tables"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return [line.split("\t") for line in done.stdout.splitlines()]


@pytest.mark.nightly
def test_every_api_has_kafkas_key_and_versions(tables: list[list[str]]) -> None:
    kafkas = {int(row[1]): (row[2], int(row[3]), int(row[4])) for row in tables if row[0] == "api"}
    for api in apis.ALL:
        assert (api.min_version, api.max_version) == kafkas[api.key][1:], api.name


@pytest.mark.nightly
def test_every_error_has_kafkas_code_name_and_retriability(tables: list[list[str]]) -> None:
    kafkas = {tuple(row[1:4]) for row in tables if row[0] == "error"}
    ours = {(str(code), name, str(again).lower()) for code, name, again, _ in errors.ROWS}
    assert ours | {("0", "NONE", "false")} == kafkas


@pytest.mark.nightly
def test_metadata_is_stale_after_the_same_errors_as_in_kafka(tables: list[list[str]]) -> None:
    """Our set also has UNKNOWN_LEADER_EPOCH, which Kafka's consumer handles by itself."""
    kafkas = {row[2] for row in tables if row[0] == "error" and row[4] == "true"}
    assert kafkas | {"UNKNOWN_LEADER_EPOCH"} == STALE_METADATA
