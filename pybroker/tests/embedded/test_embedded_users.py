"""``pybroker.run(sasl=…, users=…)``, and the settings that it gives to clients of each library."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import pybroker
from pybroker.client_settings import LIBRARIES, settings_for
from pybroker.embedded import setting
from pybroker.passwords import MODULES, PLAIN, SCRAM, passwords
from pyclient import Admin, Producer
from pyclient.admin.types import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from pyclient.errors import SaslRefused

ODD = "bo=b,x"
"""A name that kafka-python and aiokafka do not escape in SCRAM."""
USERS = {"alice": 's"ec\\r,et=ä', ODD: "x"}
TOPIC = "secured"
PATIENCE_S = 90.0
READS = pybroker.Acl("alice", "READ", topic="t")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"sasl": "GSSAPI", "users": USERS}, "is not one of PLAIN, SCRAM-SHA-256"),
        ({"sasl": True, "users": USERS}, "sasl=True is not one of PLAIN, SCRAM-SHA-256"),
        ({"sasl": "PLAIN"}, "sasl and users go together"),
        ({"processes": 9092}, "processes=9092 is the number of brokers, 1 to 100; a port is port=9092"),
        ({"processes": 0}, "processes=0 is the number of brokers, 1 to 100"),
        ({"users": USERS}, "sasl and users go together"),
        ({"sasl": "PLAIN", "users": {"alice": ""}}, "is empty"),
        ({"sasl": "SCRAM-SHA-256", "users": {"alice": "hush\nhush"}}, "has a line break"),
        ({"sasl": "PLAIN", "users": USERS, "listeners": "PLAINTEXT://:0"}, "give only one of the two"),
        ({"acls": [READS]}, "acls name User:alice, and this broker knows no users: each client is User:ANONYMOUS"),
        ({"acls": [READS], "tls": True, "super_users": "User:bob"}, "tls=True, ssl_client_auth='required'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        pybroker.EmbeddedBroker(**arguments)  # type: ignore[arg-type]
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"sasl": "PLAIN", "users": ["alice"]}, "users are passwords by name"),
        ({"sasl": "PLAIN", "users": {"alice": 1}}, "users are passwords by name"),
        ({"processes": "3"}, "processes='3' is not a number"),
        ({"port": "9092"}, "port='9092' is not a number"),
        ({"brokers": 3}, "brokers=3: here it is processes=3"),
        ({"config": {"num.partitions": 3}}, r"config=\{…\}: Kafka's keys are arguments: run\(num_partitions=3\)"),
        ({"start_timeout_s": "5"}, "start_timeout_s='5' is not a number"),
        ({"tls": "cert.pem"}, r"tls='cert.pem': True makes certificates; your own are listeners='SSL:"),
        ({"acls": {"alice": "READ"}}, r"acls contains 'alice', which is not an Acl: acls=\[Acl\("),
    ],
)
def test_arguments_of_the_wrong_type_are_refused_with_the_right_one(arguments: dict[str, object], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        pybroker.EmbeddedBroker(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("port", "bootstrap_servers, host:port"),
        ("get_bootstrap_server", r"bootstrap_servers, which needs no \(\)"),
        ("stop", r"close\(\), or a with block"),
        ("create_topic", r"Admin\(broker.bootstrap_servers\).create_topics\(…\)"),
    ],
)
def test_attribute_of_another_library_is_answered_with_its_name_here(name: str, here: str) -> None:
    broker = pybroker.EmbeddedBroker()
    with pytest.raises(AttributeError, match=f"has no attribute '{name}': here it is {here}; see docs/testing.md"):
        getattr(broker, name)
    assert name not in dir(broker)


@pytest.mark.parametrize(
    "arguments",
    [
        {"acls": [READS], "sasl": "PLAIN", "users": USERS},
        {"acls": [READS], "tls": True, "ssl_client_auth": "required"},
        {"acls": [READS], "listeners": "SASL_PLAINTEXT://localhost:0"},
        {"acls": [READS], "super_users": ["User:bob", "User:ANONYMOUS"]},
        {"acls": [READS, pybroker.Acl("*", "READ", topic="t")]},
        {"acls": []},
    ],
)
def test_acls_need_users_or_apply_to_everybody(arguments: dict[str, object]) -> None:
    pybroker.EmbeddedBroker(**arguments)  # type: ignore[arg-type]


def test_several_super_users_are_a_list() -> None:
    assert setting("super_users", ["User:a,b", "User:c"]) == ("super.users", "User:a,b;User:c")
    assert setting("log_dirs", ["a", "b"]) == ("log.dirs", "a,b")


def test_without_users_no_setting_changes() -> None:
    assert passwords(None, None) is None


@pytest.mark.parametrize("mechanism", MODULES)
def test_passwords_are_in_no_setting_but_the_secret_one(mechanism: str) -> None:
    known = passwords(mechanism.lower(), {"alice": "hush"})
    assert known is not None
    assert "hush" not in repr(known)
    assert "hush" not in repr(known.login("alice"))
    shown = [text for name, text in known.settings("SASL_SSL").items() if not name.endswith("sasl.jaas.config")]
    assert not any("hush" in text for text in shown)


@pytest.mark.parametrize("library", LIBRARIES)
def test_each_library_has_its_own_names(library: str) -> None:
    known = passwords("SCRAM-SHA-512", {"alice": "secret"})
    assert known is not None
    found = settings_for(library, "localhost:1", None, None, known.login(None))
    names = {name.replace(".", "_"): value for name, value in found.items()}
    assert (names["bootstrap_servers"], names["security_protocol"]) == ("localhost:1", "SASL_PLAINTEXT")
    assert names["sasl_mechanism"] == "SCRAM-SHA-512"
    assert "secret" in str(found)
    with pytest.raises(ValueError, match="user='eve' is unknown: the users are alice"):
        known.login("eve")


@pytest.fixture(scope="module", params=[(tls, sasl) for tls in (False, True) for sasl in (PLAIN, *SCRAM)])
def own_broker(request: pytest.FixtureRequest) -> Iterator[pybroker.EmbeddedBroker]:
    tls, sasl = request.param
    with pybroker.run(tls=tls, sasl=sasl, users=USERS) as broker:
        yield broker


def test_clients_of_every_library_log_in_even_after_a_restart(own_broker: pybroker.EmbeddedBroker) -> None:
    import confluent_kafka
    from aiokafka import AIOKafkaProducer
    from kafka import KafkaProducer

    async def by_aiokafka() -> None:
        async with AIOKafkaProducer(**own_broker.client_settings("alice", library="aiokafka")) as producer:
            await producer.send_and_wait(TOPIC, b"x")

    for user in USERS:
        with Producer(**own_broker.client_settings(user)) as producer:
            producer.send(TOPIC, b"x").result(PATIENCE_S)
        by_librdkafka = confluent_kafka.Producer(own_broker.client_settings(user, library="confluent-kafka"))
        by_librdkafka.produce(TOPIC, b"x")
        assert by_librdkafka.flush(PATIENCE_S) == 0
    by_kafka_python = KafkaProducer(**own_broker.client_settings("alice", library="kafka-python"))
    by_kafka_python.send(TOPIC, b"x").get(PATIENCE_S)
    by_kafka_python.close()
    asyncio.run(by_aiokafka())
    own_broker.restart()
    with Producer(**own_broker.client_settings("alice")) as producer:
        producer.send(TOPIC, b"x").result(PATIENCE_S)
    assert USERS["alice"] not in own_broker.log


def test_a_wrong_password_is_refused(own_broker: pybroker.EmbeddedBroker) -> None:
    settings = own_broker.client_settings("alice") | {"sasl_password": "wrong"}
    with Admin(**settings) as admin, pytest.raises(SaslRefused):
        admin.describe_cluster(timeout=PATIENCE_S)


@pytest.mark.nightly
@pytest.mark.parametrize("processes", [1, 2])
def test_users_get_their_passwords_in_a_kept_folder_and_a_change_outlives_a_restart(
    tmp_path: Path, processes: int
) -> None:
    def comes_in(broker: pybroker.EmbeddedBroker, password: str) -> bool:
        with Admin(**broker.client_settings("alice") | {"sasl_password": password}) as admin:
            try:
                admin.describe_cluster(timeout=PATIENCE_S)
            except SaslRefused:
                return False
        return True

    for password in ("old", "new"):
        users = {"alice": password}
        with pybroker.run(processes, data_dir=tmp_path, sasl="SCRAM-SHA-256", users=users) as broker:
            assert comes_in(broker, password)
    assert not comes_in(broker.start(), "old")
    with Admin(**broker.client_settings("alice")) as admin:
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        change = UserScramCredentialUpsertion("alice", info, "changed")
        admin.alter_user_scram_credentials([change], timeout=PATIENCE_S)
    broker.restart()
    assert comes_in(broker, "changed")
    broker.close()


@pytest.mark.nightly
def test_several_brokers_accept_users_and_each_other(tmp_path: Path) -> None:
    with (
        pybroker.run(3, tls=True, sasl="SCRAM-SHA-256", users=USERS, default_replication_factor=3) as cluster,
        Producer(**cluster.client_settings("alice"), acks="all") as producer,
    ):
        producer.send(TOPIC, b"x").result(PATIENCE_S)
