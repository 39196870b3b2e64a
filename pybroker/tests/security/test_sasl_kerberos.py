"""A broker whose clients log in by GSSAPI, and our client, with a fake Kerberos library."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.tests.security.test_sasl import address
from pybroker.tests.security.test_sasl_on_the_wire import Raw
from pybroker.tests.security.test_tls import Running, running
from pybroker.tests.waiting import PATIENCE_S
from pyclient import Admin, Producer
from pyclient.errors import ConfigError, ConnectionFailed, SaslRefused
from pyclient.protocol import ListGroups, SaslAuthenticate, SaslHandshake, errors, gssapi
from pyclient.security import kerberos
from pyclient.tests.security.fake_gssapi import SIGNED, UNREACHABLE, GSSError, Library

MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
SETTINGS = {
    "listeners": "PLAINTEXT://localhost:0,INSIDE://localhost:0",
    "listener.security.protocol.map": "INSIDE:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "sasl.enabled.mechanisms": "GSSAPI",
    "sasl.kerberos.service.name": "kafka",
    "sasl.jaas.config": f'{MODULE} useKeyTab=true keyTab="/k" principal="kafka/localhost@REALM.COM";',
    "connection.failed.authentication.delay.ms": "1",
}
MINE = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI"}
STEPS = [b"alice to kafka@localhost", b"", SIGNED + gssapi.NONE_ONLY]


@pytest.fixture(scope="module")
def library() -> Iterator[Library]:
    with pytest.MonkeyPatch.context() as patch:
        made = Library()
        patch.setattr(kerberos, "library", lambda: made)
        yield made


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, library: Library) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("kerberos"), **SETTINGS) as broker:
        yield broker


@pytest.fixture
def raw(served: Running) -> Iterator[Raw]:
    client = Raw(served)
    yield client
    client.socket.close()


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"sasl_kerberos_principal": "alice"},
        {"sasl_jaas_config": f"{MODULE} useTicketCache=true serviceName=kafka;"},
    ],
)
def test_a_client_with_a_ticket_logs_in(served: Running, library: Library, more: dict[str, str]) -> None:
    with Producer(address(served, "INSIDE"), **MINE, **more) as producer:
        assert producer.send("by-kerberos", value=b"x").result(timeout=PATIENCE_S).offset >= 0
        assert "User:alice" in served.principals
    assert all(name.startswith("login") for name in library.threads), "steps never run on the event loop"


def test_a_keytab_is_named_as_librdkafka_or_java_name_it(served: Running, library: Library, tmp_path: Path) -> None:
    keytab = tmp_path / "keytab"
    keytab.touch()
    jaas = f'{MODULE} useKeyTab=true keyTab="{keytab}" principal="bob";'
    for given in ({"sasl_kerberos_keytab": str(keytab), "sasl_kerberos_principal": "bob"}, {"sasl_jaas_config": jaas}):
        with Admin(address(served, "INSIDE"), **MINE, **given) as admin:
            admin.describe_cluster(timeout=PATIENCE_S)
            assert "User:bob" in served.principals
        assert library.stores[-1]["client_keytab"] == str(keytab)


def refused(served: Running, kind: type[Exception] = SaslRefused, **settings: object) -> str:
    with Admin(address(served, "INSIDE"), **MINE, **settings) as admin, pytest.raises(kind) as caught:
        admin.describe_cluster(timeout=PATIENCE_S if kind is SaslRefused else 0.5)
    return str(caught.value)


def test_kerberos_errors_name_the_cause(served: Running, library: Library, tmp_path: Path) -> None:
    (keytab := tmp_path / "keytab").touch()
    assert "invalid credentials with SASL mechanism GSSAPI" in refused(served, sasl_kerberos_service_name="other")
    assert "/nowhere does not exist" in refused(served, sasl_kerberos_keytab="/nowhere")
    told = refused(served, sasl_kerberos_keytab=str(keytab), sasl_kerberos_principal="absent")
    assert f"the keytab {keytab} has no key of absent" in told
    assert "run kinit" in refused(served, sasl_kerberos_principal="absent")


def test_an_unreachable_kdc_is_tried_again(served: Running, library: Library) -> None:
    library.trouble = GSSError(UNREACHABLE, "Cannot contact any KDC")
    try:
        assert "is the KDC of krb5.conf running?" in refused(served, ConnectionFailed)
    finally:
        library.trouble = None


def test_a_missing_keytab_setting_and_a_missing_library_are_configuration_errors(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="needs keyTab="):
        Admin("localhost:1", **MINE, sasl_jaas_config=f"{MODULE} useKeyTab=true;")

    def missing() -> None:
        raise kerberos.KerberosError(kerberos.MISSING)

    monkeypatch.setattr(kerberos, "library", missing)
    with pytest.raises(ConfigError, match=r"sasl.mechanism=GSSAPI: .*pip install 'pybroker\[gssapi\]'"):
        Admin("localhost:1", **MINE)


def test_kerberos_clients_get_the_host_name(served: Running) -> None:
    with Admin(address(served, "INSIDE"), **MINE) as admin:
        (node,) = admin.describe_cluster(timeout=PATIENCE_S).brokers
    assert node.host == "localhost"


def test_kerberos_messages_come_in_requests(raw: Raw) -> None:
    assert raw.ask(SaslHandshake, 1, mechanism="GSSAPI").error_code == 0
    answers = [raw.ask(SaslAuthenticate, 2, auth_bytes=step).auth_bytes for step in STEPS]
    assert answers == [b"welcome", SIGNED + gssapi.NONE_ONLY, b""]
    assert raw.ask(ListGroups, 2).error_code == 0


def test_kerberos_messages_come_bare_after_handshake_version_0(raw: Raw) -> None:
    assert raw.ask(SaslHandshake, 0, mechanism="GSSAPI").error_code == 0
    for step, answer in zip(STEPS, [b"welcome", SIGNED + gssapi.NONE_ONLY, b""], strict=True):
        raw.send(step)
        assert raw.receive() == answer
    assert raw.ask(ListGroups, 2).error_code == 0


@pytest.mark.parametrize("version", [0, 1])
def test_a_wrong_kerberos_message_ends_the_connection_after_its_answer(raw: Raw, version: int) -> None:
    assert raw.ask(SaslHandshake, version, mechanism="GSSAPI").error_code == 0
    if version:
        answer = raw.ask(SaslAuthenticate, 2, auth_bytes=b"x to y")
        assert answer.error_code == errors.SaslAuthenticationFailed.code
    else:
        raw.send(b"x to y")
    assert raw.receive() is None


def test_requests_behind_a_kerberos_message_wait_for_its_answer(raw: Raw) -> None:
    assert raw.ask(SaslHandshake, 0, mechanism="GSSAPI").error_code == 0
    for step in STEPS:
        raw.send(step)
    assert [raw.receive() for _ in STEPS] == [b"welcome", SIGNED + gssapi.NONE_ONLY, b""]
