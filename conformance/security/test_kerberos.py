"""Users log in by Kerberos, with our client and others, at Debian's key distribution center; others are refused."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from conformance.drivers.logins import KERBEROS_MODULE, SERVICE, Login
from conformance.security.aio import AiokafkaClient
from conformance.security.base import Client, Refused
from conformance.security.java import JavaClient
from conformance.security.kafka_python import KafkaPythonClient
from conformance.security.kdc import REALM, Kdc, serving
from harness.clients.jvm import Jvm
from harness.servers.brokers import Broker, BrokerError, OurBroker, free_port
from harness.servers.clusters import Cluster
from harness.servers.ensemble import Ensemble, Kerberos
from harness.waiting import until
from pyclient import Admin, Consumer, NewTopic, Producer
from pyclient.errors import SaslRefused

pytestmark = pytest.mark.nightly

HOST = "localhost"
LISTENER = "KERBEROS"
OF_LISTENER = "listener.name.kerberos.gssapi.sasl.jaas.config"
#: A client authenticates again after this time.
SESSION_MS = 1500


@pytest.fixture(scope="module")
def kdc(data_root: Path) -> Iterator[Kdc]:
    with serving(data_root / "kdc") as one, pytest.MonkeyPatch.context() as patch:
        for name, text in one.environment.items():
            patch.setenv(name, text)
        yield one


def of_service(kdc: Kdc, service: str = "kafka") -> str:
    """Returns a broker's ``sasl.jaas.config``."""
    keytab = kdc.keytab(f"{service}/{HOST}")
    options = f'useKeyTab=true storeKey=true keyTab="{keytab}" principal="{service}/{HOST}@{REALM}"'
    return f"{KERBEROS_MODULE} required {options};"


@pytest.fixture(scope="module")
def broker(kdc: Kdc, data_root: Path) -> Iterator[Broker]:
    made = OurBroker(data_root / "kerberos")
    made.port = free_port()
    made.config = {
        "listeners": f"PLAINTEXT://{made.bootstrap},SASL_PLAINTEXT://{HOST}:{free_port()}",
        "sasl.enabled.mechanisms": "GSSAPI",
        "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": of_service(kdc),
        "sasl.kerberos.principal.to.local.rules": "RULE:[1:$1](.*)s/^/user-/L,DEFAULT",
        "connections.max.reauth.ms": str(SESSION_MS),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:user-alice",
        **SERVICE,
    }
    with made:
        yield made


def login(broker: Broker, kdc: Kdc, user: str = "alice") -> Login:
    """Makes a user with a new keytab, at the SASL listener."""
    where = broker.config["listeners"].rpartition("://")[2]
    return Login(where, user, mechanism="GSSAPI", keytab=kdc.keytab(user))


def settings(login: Login, **more: str) -> dict[str, Any]:
    """Returns our client's settings."""
    given = {"sasl_kerberos_keytab": str(login.keytab), "sasl_kerberos_principal": login.user}
    return {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI", **given, **more}


@pytest.fixture(scope="module")
def java(kdc: Kdc) -> Iterator[Client]:
    jvm = Jvm(options=[f"-Djava.security.krb5.conf={kdc.krb5_conf}"])
    yield JavaClient(jvm)
    jvm.close()


@pytest.mark.parametrize("name", ["java", "kafka-python", "aiokafka"])
def test_s112_a_kerberos_user_logs_in_with_another_projects_client(
    name: str, broker: Broker, kdc: Kdc, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = {"kafka-python": KafkaPythonClient, "aiokafka": AiokafkaClient}
    client = python[name]() if name in python else request.getfixturevalue("java")
    alice, eve = login(broker, kdc), login(broker, kdc, "eve")
    topic = f"kerberos-{name}"
    broker.make_topic(topic)
    for user in (eve, alice):
        monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(user.keytab))
        monkeypatch.setenv("KRB5CCNAME", f"MEMORY:{name}-{user.user}")
        if user is eve:
            with pytest.raises(Refused, match=client.refusals["topic"]):
                client.write(eve, topic, b"x")
    client.write(alice, topic, b"by alice")
    assert client.read(alice, topic, topic) == [b"by alice"]


def test_pyclient_logs_in_with_a_keytab_or_the_kinit_cache(
    broker: Broker, kdc: Kdc, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, before = login(broker, kdc), len(broker.logged())
    with Producer(alice.bootstrap, **settings(alice)) as producer:
        producer.send("kerberos-ours", value=b"one").result(timeout=60)
        until(lambda: producer.send("kerberos-ours", value=b"more").result(timeout=60).offset > 3, "more", pause_s=1)
    assert "session has expired" not in broker.logged()[before:], "it says in time again who it is"
    assert alice.keytab is not None
    monkeypatch.setenv("KRB5CCNAME", str(kdc.cache("alice", alice.keytab)))
    cached: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI"}
    with Consumer(alice.bootstrap, topics=["kerberos-ours"], auto_offset_reset="earliest", **cached) as consumer:
        assert next(iter(consumer)).value == b"one"


@pytest.mark.timeout(900)
def test_spark_reads_and_writes_with_a_keytab_and_says_what_is_wrong_with_another(
    broker: Broker, kdc: Kdc, tmp_path: Path
) -> None:
    alice, topic = login(broker, kdc), "kerberos-spark"
    broker.make_topic(topic)
    logins = {
        "ours": alice.spark(),
        "of Java": {f"kafka.{key}": text for key, text in alice.java().items()},
        "of mallory": {**alice.spark(), "kafka.sasl.kerberos.principal": "mallory"},
    }
    command = [sys.executable, "-m", "conformance.security.spark_with_tickets", str(tmp_path), topic]
    done = subprocess.run([*command, json.dumps(logins)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["ours"], found["of Java"]) == (["ours"], ["of Java", "ours"])
    assert "has no key of mallory" in found["of mallory"]


def cluster_of(kdc: Kdc, folder: Path, brokers: int, **more: Any) -> Cluster:
    """Makes brokers whose only listener has Kerberos alone."""
    return Cluster(
        folder,
        brokers,
        listeners=f"{LISTENER}://{HOST}:0",
        listener_security_protocol_map=f"{LISTENER}:SASL_PLAINTEXT",
        inter_broker_listener_name=LISTENER,
        sasl_enabled_mechanisms="GSSAPI",
        sasl_kerberos_service_name="kafka",
        default_replication_factor=brokers,
        min_insync_replicas=brokers,
        **{OF_LISTENER: of_service(kdc)},
        **more,
    )


def test_brokers_reach_each_other_on_a_kerberos_only_listener(kdc: Kdc, data_root: Path) -> None:
    with cluster_of(kdc, data_root / "kerberos-cluster", 2) as cluster:
        alice = Login(f"{HOST}:{cluster.ports[2]}", "alice", mechanism="GSSAPI", keytab=kdc.keytab("alice"))
        with Producer(alice.bootstrap, acks="all", **settings(alice)) as producer:
            assert producer.send("of-two", value=b"on both").result(timeout=60).offset == 0


def test_brokers_log_in_to_each_other_by_kerberos_and_one_without_the_right_key_stays_out(
    kdc: Kdc, data_root: Path
) -> None:
    between = {"sasl_mechanism_inter_broker_protocol": "GSSAPI", "connections_max_reauth_ms": SESSION_MS}
    cluster = cluster_of(kdc, data_root / "kerberos-between", 3, replica_lag_time_max_ms=2000, **between)
    keytab = kdc.keytab(f"kafka/{HOST}")
    stale = str(shutil.copy(keytab, kdc.folder / "stale.keytab"))
    kdc.keytab(f"kafka/{HOST}")
    with cluster:
        alice = Login(f"{HOST}:{cluster.ports[1]}", "alice", mechanism="GSSAPI", keytab=kdc.keytab("alice"))
        with Admin(alice.bootstrap, **settings(alice)) as admin:

            def is_on(topic: str, brokers: set[int]) -> bool:
                found = admin.describe_topics(topic, check=False).get(topic)
                return found is not None and set(found.partitions[0].isr) == brokers

            with Producer(alice.bootstrap, acks="all", **settings(alice)) as producer:
                producer.send("of-three", value=b"1").result(timeout=60)
                before = cluster.pid(2)
                cluster.kill(2)
                until(lambda: cluster.pid(2) not in (0, before), "another process of broker 2")
                until(lambda: is_on("of-three", {1, 2, 3}), "broker 2 to be in sync again")
                until(lambda: producer.send("of-three", value=b"x").result(timeout=60).offset > 4, "more", pause_s=1)
            assert is_on("of-three", {1, 2, 3}), "they log in again before their sessions end"
            assert "session has expired" not in cluster.logged()
            with_stale_key = cluster.config[OF_LISTENER].replace(str(keytab), stale)
            with (
                cluster.joined(4, **{OF_LISTENER: with_stale_key}),
                cluster.joined(5, sasl_mechanism_inter_broker_protocol="PLAIN"),
            ):
                for broker in (4, 5):
                    topic = f"of-{broker}"
                    admin.create_topics(NewTopic(topic, assignments={0: [1, broker]}))
                    until(partial(is_on, topic, {1}), f"broker {broker} to stay out")
            logged = cluster.logged()
    assert f"no login by Kerberos of kafka/{HOST}@{REALM} at kafka@{HOST}" in logged
    assert "the keytab has another key than the KDC" in logged
    assert "it has not logged in by Kerberos: set sasl.mechanism.inter.broker.protocol=GSSAPI" in logged


def told(login: Login, **more: str) -> str:
    """Returns our client's error after a refused login."""
    with Admin(login.bootstrap, **settings(login, **more)) as admin, pytest.raises(SaslRefused) as caught:
        admin.describe_cluster(timeout=60)
    return str(caught.value)


def test_an_error_says_what_is_wrong_with_a_keytab_or_a_service(broker: Broker, kdc: Kdc, java: Client) -> None:
    bob = login(broker, kdc, "bob")
    kdc.renew_key("bob")
    assert "the keytab has another key than the KDC" in told(bob)
    with pytest.raises(Refused, match=r"^LoginException"):
        java.write(bob._replace(user=f"bob@{REALM}"), "kerberos-refused", b"x")
    bob = login(broker, kdc, "bob")
    assert "has no key of mallory" in told(bob, sasl_kerberos_principal="mallory")
    assert "does sasl.kerberos.service.name name the broker's service" in told(bob, sasl_kerberos_service_name="other")
    kdc.keytab(f"third/{HOST}")
    assert "invalid credentials with SASL mechanism GSSAPI" in told(bob, sasl_kerberos_service_name="third")
    assert f"Cannot decrypt ticket for third/{HOST}" in broker.logged()


def test_brokers_with_tickets_are_one_zookeeper_user_and_share_secrets(kdc: Kdc, data_root: Path) -> None:
    service = f"zookeeper/{HOST}"
    server = Kerberos(f"{service}@{REALM}", kdc.keytab(service), kdc.krb5_conf)
    with Ensemble(data_root / "kerberos-zookeeper", host=HOST, kerberos=server) as zookeeper:
        place = f"{zookeeper.hosts}/kafka"

        def broker_of(name: str) -> OurBroker:
            made = OurBroker(data_root / "kerberos-brokers")
            who = f'useKeyTab=true keyTab="{kdc.keytab(name)}" principal="{name}@{REALM}"'
            own = {"zookeeper.sasl.jaas.config": f"{KERBEROS_MODULE} required {who};", "zookeeper.set.acl": "true"}
            made.config = {"zookeeper.connect": place, "node.id": "1", **own}
            return made

        for host in ("one", "two"):
            with broker_of(f"kafka/{host}.example.com") as broker, Producer(broker.bootstrap, acks="all") as producer:
                producer.send("by-ticket", value=b"x").result(timeout=60)
        with pytest.raises(BrokerError, match="brokers with another certificate or login"), broker_of("eve"):
            pass
        stranger = KazooClient(place)
        stranger.start()
        assert stranger.exists("/brokers/topics/by-ticket")
        with pytest.raises(NoAuthError):
            stranger.get("/pybroker/secret")
        stranger.stop()
        stranger.close()
