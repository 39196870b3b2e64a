"""A broker whose advertised address leads nowhere: the doctor finds it each time, and verbs that wait for it say so."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import pybroker
from pybroker.cli.common import wrong_addresses
from pybroker.cli.reaching import asking
from pybroker.cli.tests.running import Shell

COMMAND = (sys.executable, "-P", "-m", "pybroker")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Returns the address of a broker whose advertised port is closed. It has the topic ``t``."""
    data: Path = tmp_path_factory.mktemp("data")
    with pybroker.run(data_dir=data) as broker:
        Shell(broker.bootstrap_servers).done("produce", "t", "--value", "x")
    port, nobody = free_port(), free_port()
    with pybroker.run(data_dir=data, port=port, advertised_listeners=f"PLAINTEXT://localhost:{nobody}"):
        yield f"127.0.0.1:{port}"


@pytest.mark.nightly
def test_the_check_asks_only_the_given_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.setblocking(False)
        port, elsewhere = free_port(), other.getsockname()[1]
        with pybroker.run(port=port, advertised_listeners=f"PLAINTEXT://localhost:{elsewhere}"):
            found = asking.brokers("127.0.0.1", port, 30)
        assert [(each.id, each.host, each.port) for each in found.brokers] == [(1, "localhost", elsewhere)]
        with pytest.raises(BlockingIOError):
            other.accept()


@pytest.mark.nightly
def test_the_doctor_always_finds_a_wrong_advertised_address(wrong: str) -> None:
    for _ in range(12):
        ended = Shell(wrong)("doctor", "-o", "jsonl", "--timeout", 20)
        found = {each["check"]: each for each in ended.documents}
        assert found["cluster"]["level"] == "ok", ended.out
        (told,) = (each for check, each in found.items() if check.startswith("broker 1 advertises localhost:"))
        assert (told["level"], "the machine of each client itself" in told["found"]) == ("error", True)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "words",
    [("consume", "t", "--from-beginning"), ("produce", "t", "--value", "x"), ("consume", "t", "-g", "g")],
    ids=" ".join,
)
def test_a_verb_that_waits_for_a_wrong_address_says_so(words: tuple[str, ...], wrong: str) -> None:
    environment = {**os.environ, "PYBROKER_BOOTSTRAP": wrong}
    process = subprocess.Popen([*COMMAND, *words], env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    line = process.stderr.readline()
    process.kill()
    process.wait(60)
    assert line.startswith("pybroker: broker 1 advertises localhost:")
    assert f"start that broker with advertised.listeners=PLAINTEXT://{wrong}" in line


def test_the_steps_are_less_than_five_seconds() -> None:
    assert wrong_addresses.PATIENCE_S + 2 * wrong_addresses.STEP_S < 5


@pytest.mark.nightly
def test_a_reachable_broker_is_not_reported_and_nothing_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(wrong_addresses, "complain", told.append)
    monkeypatch.setattr(wrong_addresses, "PATIENCE_S", 0)
    with pybroker.run() as broker:
        wrong_addresses.watch(broker.bootstrap_servers, threading.Event())
        assert list(wrong_addresses.wrong(broker.bootstrap_servers)) == []
    ended = threading.Event()
    ended.set()
    monkeypatch.setattr(wrong_addresses, "wrong", lambda bootstrap: iter(["x"]))
    wrong_addresses.watch("x:1", ended)
    assert told == []
    wrong_addresses.watch("x:1", threading.Event())
    assert told == ["x"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it speaks HTTP"),
        (b"", "it closed the connection"),
        (b"SSH-2.0-x\r\n", "its answer begins with b'SSH-'"),
        (b"\0\0\0\x09\0\0\0\1\0\0\0\0\xff", "does not answer as Kafka does"),
    ],
)
def test_a_server_that_is_not_kafka_is_named_by_its_greeting(answer: bytes, words: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            peer, _ = server.accept()
            peer.recv(100)
            peer.sendall(answer)
            peer.close()

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(asking.Foreign, match=words):
            asking.brokers("127.0.0.1", server.getsockname()[1], 30)
        thread.join(60)
