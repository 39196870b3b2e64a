"""Which clients count as brokers if the listener for brokers uses TLS."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from pybroker.config import BrokerConfig
from pybroker.security.tls.broker_tls import BrokerTls
from pybroker.security.tls.listener_tls import ANONYMOUS
from pyclient.keywords import with_dots

CA = trustme.CA()
OWN = "User:OU=brokers,O=trustme"


def tls(folder: Path, **settings: str) -> BrokerTls:
    path = str(folder / "keys.pem")
    CA.issue_cert("localhost", organization_unit_name="brokers").private_key_and_cert_chain_pem.write_to_path(path)
    given = {
        "listeners": "PLAINTEXT://:9092,SSL://:9093",
        "ssl.keystore.location": path,
        "ssl.truststore.location": path,
        "ssl.principal.mapping.rules": "RULE:^(OU=[a-z]+,O=trustme).*$/$1/,DEFAULT",
        **with_dots(settings),
    }
    return BrokerTls(BrokerConfig(given))


def test_if_brokers_need_certificates_the_secret_is_not_enough(tmp_path: Path) -> None:
    both = {"security_inter_broker_protocol": "SSL", "ssl_client_auth": "required"}
    broker = tls(tmp_path, **both, super_users="User:CN=two,O=x; User:CN=three")
    for known in (OWN, "User:CN=two,O=x", "User:CN=three"):
        assert broker.refusal("SSL", known) is None
    assert f"User:CN=four is not {OWN}" in (broker.refusal("SSL", "User:CN=four") or "")
    assert broker.refusal("SSL", ANONYMOUS)
    assert "use the listener SSL" in (broker.refusal("PLAINTEXT", ANONYMOUS) or "")


def test_brokers_by_sasl_come_by_the_listener_that_asks_for_certificates(tmp_path: Path) -> None:
    path = str(tmp_path / "keys.pem")
    CA.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(path)
    given = {
        "listeners": "PLAINTEXT://:9092,SASL_SSL://:9093",
        "security.inter.broker.protocol": "SASL_SSL",
        "listener.name.sasl_ssl.ssl.client.auth": "required",
        "ssl.keystore.location": path,
        "ssl.truststore.location": path,
    }
    broker = BrokerTls(BrokerConfig(given))
    assert "use the listener SASL_SSL" in (broker.refusal("PLAINTEXT", ANONYMOUS) or "")
    assert broker.refusal("SASL_SSL", ANONYMOUS) is None


@pytest.mark.parametrize(
    "settings",
    [
        {"ssl_client_auth": "required"},
        {"ssl_client_auth": "requested", "security_inter_broker_protocol": "SSL"},
        {"inter_broker_listener_name": "ssl", "listener_name_plaintext_ssl_client_auth": "none"},
    ],
)
def test_elsewhere_the_secret_decides(settings: dict[str, str], tmp_path: Path) -> None:
    broker = tls(tmp_path, **settings)
    assert broker.refusal("PLAINTEXT", ANONYMOUS) is None
    assert broker.refusal("SSL", "User:CN=anybody") is None


def test_the_protocol_map_decides_not_the_name_of_the_listener(tmp_path: Path) -> None:
    swapped = tls(tmp_path, listener_security_protocol_map="SSL:PLAINTEXT,PLAINTEXT:SSL")
    assert set(swapped.listeners) == {"PLAINTEXT"}
    assert swapped.between is None


def test_the_listener_for_brokers_is_found_by_its_name_in_any_case(tmp_path: Path) -> None:
    broker = tls(
        tmp_path,
        listeners="OUT://:1,In://:2",
        listener_security_protocol_map="OUT:SSL,IN:SSL",
        inter_broker_listener_name="in",
    )
    assert broker.between is broker.listeners["IN"]
    assert tls(tmp_path).between is None
