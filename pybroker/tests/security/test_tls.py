"""A broker with listeners of TLS, and other projects' clients, with their own settings."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme
import uvloop

from pybroker.security import file_watch
from pybroker.server import Broker
from pybroker.tests.test_server import make
from pybroker.tests.waiting import PATIENCE_S, until_async
from pyclient.keywords import with_dots

LARGE = bytes(range(256)) * 4000
MANY = [b"record %d" % number for number in range(5000)]


class Running(NamedTuple):
    """A broker on a thread of its own."""

    broker: Broker
    bootstrap: str
    ca: str
    client: str
    """A PEM file with the key and the certificate of a client."""
    stranger: str
    """A PEM file of a client whose certificate is from another authority."""
    keys: Path
    authority: trustme.CA
    loop: asyncio.AbstractEventLoop

    @property
    def principals(self) -> list[str]:
        return [each.principal for each in self.broker.net.connections]

    def until(self, holds: Callable[[], object]) -> None:
        """Waits until ``holds()`` is true."""
        asyncio.run_coroutine_threadsafe(until_async(holds), self.loop).result(PATIENCE_S)

    def connect(self, certificate: str | None = None, cafile: str | None = None) -> ssl.SSLSocket:
        """Connects with Python's TLS, with this key and certificate."""
        context = ssl.create_default_context(cafile=cafile or self.ca)
        if certificate is not None:
            context.load_cert_chain(certificate)
        host, _, port = self.bootstrap.rpartition(":")
        return context.wrap_socket(socket.create_connection((host, int(port))), server_hostname=host)

    def new_keys(self, name: str) -> bytes:
        """Writes a new key of the broker into a file of that name; returns its certificate."""
        leaf = self.authority.issue_cert("localhost")
        leaf.private_key_and_cert_chain_pem.write_to_path(str(self.keys.with_name(name)))
        return ssl.PEM_cert_to_DER_cert(leaf.cert_chain_pems[0].bytes().decode())

    def shows(self, certificate: bytes, cafile: str | None = None) -> None:
        """Waits until new connections see this certificate."""
        seen = None
        while seen != certificate:
            with self.connect(cafile=cafile) as connected:
                seen = connected.getpeercert(binary_form=True)


def certified(folder: Path) -> tuple[trustme.CA, dict[str, str]]:
    authority, other = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    for name, issuer, host in (
        ("keys", authority, "localhost"),
        ("client", authority, "client.test"),
        ("stranger", other, "client.test"),
    ):
        leaf = issuer.issue_cert(host, common_name=name)
        leaf.private_key_and_cert_chain_pem.write_to_path(str(folder / f"{name}.pem"))
    return authority, {name: str(folder / f"{name}.pem") for name in ("ca", "keys", "client", "stranger")}


@contextlib.contextmanager
def running(folder: Path, **settings: str) -> Iterator[Running]:
    authority, files = certified(folder)
    given = {
        "listeners": "PLAINTEXT://localhost:0,SSL://localhost:0",
        "ssl.keystore.location": files["keys"],
        "ssl.truststore.location": files["ca"],
        "group.initial.rebalance.delay.ms": "0",
        **with_dots(settings),
    }
    started: Future[tuple[Broker, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def main() -> None:
        broker, stop = make(folder / "data", **given), asyncio.Event()
        try:
            await broker.start()
            started.set_result((broker, asyncio.get_running_loop(), stop))
            await stop.wait()
        except Exception as error:
            started.set_exception(error)
        finally:
            await broker.stop()

    def serve() -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main())

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        broker, loop, stop = started.result(PATIENCE_S)
        bootstrap = broker.listeners().rpartition("SSL://")[2]
        try:
            yield Running(
                broker, bootstrap, files["ca"], files["client"], files["stranger"], Path(files["keys"]), authority, loop
            )
        finally:
            loop.call_soon_threadsafe(stop.set)
    finally:
        thread.join(PATIENCE_S)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    given = {"ssl_client_auth": "requested", "ssl_allow_dn_changes": "true"}
    with running(tmp_path_factory.mktemp("tls"), **given) as broker:
        yield broker


def librdkafka(served: Running, **more: str) -> dict[str, str]:
    return {"bootstrap.servers": served.bootstrap, "security.protocol": "SSL", "ssl.ca.location": served.ca, **more}


def test_librdkafka_produces_and_fetches_by_tls(served: Running) -> None:
    from confluent_kafka import Consumer, Producer

    producer = Producer(librdkafka(served, **{"message.max.bytes": "2000000"}))
    for value in (*MANY, LARGE):
        producer.produce("by-librdkafka", value)
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer(librdkafka(served, **{"group.id": "g", "auto.offset.reset": "earliest"}))
    consumer.subscribe(["by-librdkafka"])
    values = []
    while len(values) < len(MANY) + 1:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None, message.error()
        values.append(message.value())
    consumer.close()
    assert values == [*MANY, LARGE]


def test_kafka_python_produces_and_fetches_by_tls(served: Running) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    settings = {"bootstrap_servers": served.bootstrap, "security_protocol": "SSL", "ssl_cafile": served.ca}
    producer = KafkaProducer(max_request_size=2_000_000, **settings)
    for value in (*MANY, LARGE):
        producer.send("by-kafka-python", value)
    producer.flush(PATIENCE_S)
    producer.close()
    consumer = KafkaConsumer("by-kafka-python", auto_offset_reset="earliest", **settings)
    values = [record.value for _, record in zip(range(len(MANY) + 1), consumer, strict=False)]
    consumer.close()
    assert values == [*MANY, LARGE]


def test_aiokafka_produces_and_fetches_by_tls(served: Running) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def scenario() -> None:
        context = ssl.create_default_context(cafile=served.ca)
        settings = {"bootstrap_servers": served.bootstrap, "security_protocol": "SSL", "ssl_context": context}
        async with AIOKafkaProducer(max_request_size=2_000_000, **settings) as producer:
            for value in (*MANY, LARGE):
                await producer.send("by-aiokafka", value)
            await producer.flush()
        async with AIOKafkaConsumer("by-aiokafka", auto_offset_reset="earliest", **settings) as consumer:
            values = [(await consumer.getone()).value for _ in range(len(MANY) + 1)]
        assert values == [*MANY, LARGE]

    asyncio.run(scenario())


def test_a_client_is_known_by_the_name_in_its_certificate(served: Running) -> None:
    with served.connect(served.client), served.connect():
        served.until(lambda: any(each.startswith("User:CN=client,OU=Testing cert") for each in served.principals))
        served.until(lambda: "User:ANONYMOUS" in served.principals)


def test_a_certificate_of_another_authority_is_refused(served: Running) -> None:
    def read() -> bytes:
        """With TLS 1.3, a client gets the error when it reads."""
        with served.connect(served.stranger) as connected:
            return connected.recv(1)

    with pytest.raises((ssl.SSLError, ConnectionError)):
        read()
    assert not any("stranger" in each for each in served.principals)


def alter(broker: Running, key: str, value: str, operation: str = "SET") -> None:
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType[operation])
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    admin = AdminClient(librdkafka(broker))
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(PATIENCE_S)


def test_an_administrator_changes_the_certificate_of_a_listener(served: Running) -> None:
    from confluent_kafka.admin import AdminClient, ConfigResource

    admin, wanted = AdminClient(librdkafka(served)), served.new_keys("altered.pem")
    key, location = "listener.name.ssl.ssl.keystore.location", str(served.keys.with_name("altered.pem"))
    alter(served, key, location)
    served.shows(wanted)
    (shown,) = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")]).values()
    settings = shown.result(PATIENCE_S)
    assert settings[key].value == location
    assert settings["ssl.keystore.password"].value is None
    alter(served, key, location, "DELETE")


def refused(broker: Running, key: str, value: str, *, incremental: bool, validate_only: bool) -> str:
    """Returns the broker's reason for refusing a setting."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    if not incremental:
        resource = ConfigResource(ConfigResource.Type.BROKER, "1", set_config={key: value})
    admin = AdminClient(librdkafka(broker))
    if incremental:
        answers = admin.incremental_alter_configs([resource], validate_only=validate_only)
    else:
        with pytest.deprecated_call():
            answers = admin.alter_configs([resource], validate_only=validate_only)
    (done,) = answers.values()
    with pytest.raises(KafkaException) as caught:
        done.result(PATIENCE_S)
    assert caught.value.args[0].name() == "INVALID_REQUEST"
    return str(caught.value)


@pytest.mark.parametrize("incremental", [True, False])
@pytest.mark.parametrize("validate_only", [True, False])
def test_an_unreadable_key_store_is_refused(served: Running, incremental: bool, validate_only: bool) -> None:
    key, path = "listener.name.ssl.ssl.keystore.location", str(served.keys.with_name("none.pem"))
    said = refused(served, key, path, incremental=incremental, validate_only=validate_only)
    assert f"listener SSL: {key} (from AlterConfigs): {path}: No such file" in said
    slip = "listener.name.sll.ssl.keystore.location"
    said = refused(served, slip, path, incremental=incremental, validate_only=validate_only)
    assert f"{slip} names no listener" in said
    assert served.broker.config.source(key).name == "DEFAULT"


def test_a_start_uses_the_altered_key_store_even_if_the_old_one_is_gone(
    tmp_path: Path,
) -> None:
    key = "listener.name.ssl.ssl.keystore.location"
    with running(tmp_path, ssl_allow_dn_changes="true") as broker:
        wanted = broker.new_keys("moved.pem")
        alter(broker, key, str(broker.keys.with_name("moved.pem")))
        broker.authority.cert_pem.write_to_path(str(tmp_path / "ca-of-before.pem"))
    gone = {"ssl_keystore_location": str(tmp_path / "gone.pem")}
    with running(tmp_path, **gone) as broker:
        broker.shows(wanted, cafile=str(tmp_path / "ca-of-before.pem"))


def test_altered_settings_apply_from_the_first_connection_of_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path) as broker:
        alter(broker, "listener.name.ssl.ssl.client.auth", "required")
    monkeypatch.setattr(file_watch.FileWatch, "start", lambda watch: None)
    with running(tmp_path) as broker:
        assert broker.broker.protection.tls is not None
        assert broker.broker.protection.tls.listeners["SSL"].context.verify_mode is ssl.CERT_REQUIRED


def test_a_certificate_that_changes_on_the_disk_is_reloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_watch, "LOOK_S", 0.01)
    with running(tmp_path) as broker, broker.connect() as first:
        broker.shows(broker.new_keys(broker.keys.name))
        assert first.getpeercert(binary_form=True), "the old connection goes on"


def test_a_start_warns_once_of_an_expired_certificate(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    past = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    leaf = trustme.CA().issue_cert("localhost", not_before=past, not_after=past + datetime.timedelta(1))
    leaf.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "old.pem"))
    with running(tmp_path, ssl_keystore_location=str(tmp_path / "old.pem")):
        pass
    assert caplog.text.count("expired on 2020-01-02") == 1


def test_a_broker_alone_may_have_tls_for_brokers_and_serves_groups_and_transactions(tmp_path: Path) -> None:
    from confluent_kafka import Producer

    only = {"listeners": "SSL://localhost:0", "security_inter_broker_protocol": "SSL"}
    with running(tmp_path, **only, transaction_state_log_num_partitions="1") as broker:
        producer = Producer(librdkafka(broker, **{"transactional.id": "t"}))
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        producer.produce("t", b"once")
        producer.commit_transaction(PATIENCE_S)


@pytest.mark.nightly
def test_5000_stalled_handshakes_delay_no_client(served: Running) -> None:
    host, _, port = served.bootstrap.rpartition(":")
    half_open = [socket.create_connection((host, int(port))) for _ in range(5000)]
    for each in half_open:
        with contextlib.suppress(OSError):
            each.sendall(b"\x16\x03\x01\x02\x00\x01")
    with served.connect() as connected:
        assert connected.version()
    for each in half_open:
        each.close()
    served.until(lambda: not any(each.open for each in served.broker.net.handshakes.values()))


@pytest.mark.nightly
def test_kcat_writes_and_reads_by_tls(served: Running) -> None:
    common = ["kcat", "-b", served.bootstrap, "-X", "security.protocol=SSL", "-X", f"ssl.ca.location={served.ca}"]
    text = b"\n".join(MANY)
    subprocess.run([*common, "-P", "-t", "by-kcat"], input=text, check=True, timeout=PATIENCE_S)
    consume = [*common, "-C", "-t", "by-kcat", "-e", "-q"]
    read = subprocess.run(consume, stdout=subprocess.PIPE, check=True, timeout=PATIENCE_S)
    assert read.stdout.split(b"\n")[:-1] == MANY


WITHOUT = """
import asyncio, sys
from pathlib import Path
from pybroker.tests.test_server import make

async def main():
    broker = make(Path(sys.argv[1]))
    await broker.start()
    await broker.stop()

asyncio.run(main())
of_metadata = {"pybroker.security", "pybroker.security.acls", "pybroker.security.tokens"}
rooms = ("cryptography", "pybroker.security", "pyclient.security")
print(*(name for name in sys.modules if name.startswith(rooms) and name not in of_metadata))
of_net = {f"pybroker.net.{name}" for name in ("tls", "sasl_connection", "strangers")}
print(*(name for name in sys.modules if name in of_net))
"""


@pytest.mark.nightly
def test_a_broker_without_a_secured_listener_imports_nothing_of_it(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(tmp_path)], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert ended.stdout.split() == []
