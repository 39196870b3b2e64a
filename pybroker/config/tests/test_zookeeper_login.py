"""How a broker authenticates at ZooKeeper: by a key, or by Kafka's login file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pybroker.config import BrokerConfig, ConfigError
from pybroker.config.jaas_file import section
from pybroker.config.unprotected import errors_of
from pybroker.config.zookeeper_login import Login, TicketLogin, read
from pyclient.security import kerberos
from pyclient.security.jaas import JaasError
from pyclient.security.tickets import Tickets
from pyclient.tests.security.fake_gssapi import Library

MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule required"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule required"
JAAS = MODULE + ' username="kafka" password="pass};word";'
KAFKAS = f"""
/* Kafka's {{ own */
KafkaServer {{
    org.apache.kafka.common.security.plain.PlainLoginModule required
    username="admin" password="Client {{"
    user_admin="x";   // Client {{
}};
Client {{ {JAAS} }};
"""


@pytest.fixture(autouse=True)
def _no_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_OPTS", raising=False)


@pytest.fixture(autouse=True)
def _library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kerberos, "library", Library)


def config(**settings: str) -> BrokerConfig:
    given = {f"zookeeper.{name.replace('_', '.')}": text for name, text in settings.items()}
    return BrokerConfig({"zookeeper.connect": "a:1", **given})


def test_a_broker_does_not_log_in_to_zookeeper_without_a_setting() -> None:
    assert read(config()) is None


def test_a_zookeeper_login_from_the_settings_hides_its_password() -> None:
    found = read(config(sasl_jaas_config=JAAS))
    assert found == Login("kafka", "pass};word", True, "zookeeper.sasl.jaas.config")
    assert "pass" not in repr(found)
    assert read(config(auth_digest="kafka:a:b")) == Login("kafka", "a:b", False, "zookeeper.auth.digest")


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"sasl_jaas_config": "x"}, "it must be `CLASS required"),
        ({"sasl_jaas_config": 'com.sun.JndiLoginModule required principal="secret";'}, "is neither"),
        ({"sasl_jaas_config": f"{KERBEROS} useKeyTab=true;"}, 'needs keyTab="FILE"'),
        ({"sasl_jaas_config": f'{KERBEROS} useKeyTab=true keyTab="/none";'}, "the keytab /none does not exist"),
        ({"sasl_jaas_config": f'{MODULE} username="secret";'}, "username and password"),
        ({"sasl_jaas_config": f'{MODULE} username="a" password="secret" user_a="secret";'}, "username and password"),
        ({"auth_digest": "secret"}, "it must be user:password"),
        ({"auth_digest": ":secret"}, "it must be user:password"),
        ({"auth_digest": "a:secret", "sasl_jaas_config": JAAS}, "remove one of them"),
    ],
)
def test_an_invalid_zookeeper_login_stops_the_start_and_shows_no_secret(settings: dict[str, str], why: str) -> None:
    [error] = errors_of(config(**settings), alone=False)
    assert why in str(error)
    assert str(error).startswith("zookeeper.")
    assert "secret" not in str(error)


def test_the_zookeeper_login_comes_from_the_jaas_section_that_kafka_opts_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "jaas.conf"
    path.write_text(KAFKAS + f'Other {{ {MODULE} username="o" password="p"; }};')
    option = f"-Djava.security.auth.login.config={path}"
    for options, user in (
        (option, "kafka"),
        (f"-Xmx1g -Djava.security.auth.login.config=/none {option.replace('=', '==')} -Dx=y", "kafka"),
        (f"{option} -Dzookeeper.sasl.clientconfig=Other", "o"),
        (f"{option} -Dzookeeper.sasl.clientconfig=Nobody", None),
        (f"{option} -Dzookeeper.sasl.client=false", None),
    ):
        monkeypatch.setenv("KAFKA_OPTS", options)
        found = read(config())
        assert (found and found.user) == user
    monkeypatch.setenv("KAFKA_OPTS", option)
    assert read(config()) == Login("kafka", "pass};word", True, f"Client of {path}")
    assert read(config(sasl_jaas_config=JAAS.replace("kafka", "key"))) == Login(
        "key", "pass};word", True, "zookeeper.sasl.jaas.config"
    )
    path.write_text("Client { com.sun.security.auth.module.JndiLoginModule required; };")
    [error] = errors_of(config(), alone=False)
    assert "is neither" in str(error)
    path.unlink()
    with pytest.raises(ConfigError, match="No such file"):
        read(config())


def test_a_jaas_file_or_setting_for_kerberos_gives_a_zookeeper_login_by_ticket(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    keytab, path = tmp_path / "keytab", tmp_path / "jaas.conf"
    keytab.touch()
    options = f'useKeyTab=true storeKey=true keyTab="{keytab}" principal="kafka/host@REALM.COM"'
    path.write_text(f"Client {{ {KERBEROS} {options}; }};")
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={path}")
    found = read(config())
    assert isinstance(found, TicketLogin)
    assert (found.user, found.service, found.source) == ("kafka/host@REALM.COM", "zookeeper", f"Client of {path}")
    assert found.tickets.store["client_keytab"] == str(keytab)
    monkeypatch.setenv("KAFKA_OPTS", "-Dzookeeper.sasl.client.username=zk")
    text = f"{KERBEROS} useTicketCache=true;"
    assert read(config(sasl_jaas_config=text)) == TicketLogin(Tickets(None, {}), "zk", "zookeeper.sasl.jaas.config")
    assert list(errors_of(config(set_acl="true", sasl_jaas_config=text), alone=False)) == []


def test_a_kerberos_login_without_the_gssapi_library_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "gssapi", None)
    [error] = errors_of(config(sasl_jaas_config=f"{KERBEROS} useTicketCache=true;"), alone=False)
    assert "pip install 'pybroker[gssapi]'" in str(error)


@pytest.mark.parametrize("text", ["Client {", "Client } {", "Client { { x; } };", f"Client {{ {JAAS} {JAAS} }};"])
def test_a_malformed_jaas_file_is_refused(text: str) -> None:
    with pytest.raises(JaasError):
        section(text, "Client")


def test_zookeeper_set_acl_is_accepted_with_a_zookeeper_login() -> None:
    assert list(errors_of(config(set_acl="true", sasl_jaas_config=JAAS), alone=False)) == []
    assert list(errors_of(config(set_acl="true", auth_digest="a:b"), alone=False)) == []
