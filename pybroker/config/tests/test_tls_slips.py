"""A mistyped TLS key stops the start, and so does ``ssl.client.auth`` for a listener without TLS."""

from __future__ import annotations

import pytest

from pybroker.config import BrokerConfig, ConfigError
from pybroker.config.remarks import of_settings
from pybroker.config.tls_slips import check

SSL = "listeners=SSL://:9093"
BOTH = "listeners=PLAINTEXT://:9092,SSL://:9093"
LISTENER = "listener.name"


def loaded(*settings: str) -> BrokerConfig:
    return BrokerConfig.load(settings, {})


@pytest.mark.parametrize(
    ("listening", "name", "meant"),
    [
        (SSL, "ssl.clientauth", "ssl.client.auth"),
        (SSL, "ssl.client.authentication", "ssl.client.auth"),
        (SSL, "ssl.trustore.location", "ssl.truststore.location"),
        (SSL, f"{LISTENER}.ssl.client.auth", f"{LISTENER}.ssl.ssl.client.auth"),
        (SSL, f"{LISTENER}.ssl.truststore.location", f"{LISTENER}.ssl.ssl.truststore.location"),
        (SSL, f"{LISTENER}.ssl.ssl.clientauth", f"{LISTENER}.ssl.ssl.client.auth"),
        (SSL, f"{LISTENER}.SSL.ssl.truststore.location", f"{LISTENER}.ssl.ssl.truststore.location"),
        (SSL, f"{LISTENER}.sll.ssl.enabled.protocols", f"{LISTENER}.ssl.ssl.enabled.protocols"),
        ("listeners=PLAINTEXT://:9092", "ssl.clientauth", "ssl.client.auth"),
    ],
)
def test_a_mistyped_tls_key_is_refused_with_a_suggestion(listening: str, name: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{name} \(from --set\) .*: did you mean {meant}\?"):
        check(loaded(listening, f"{name}=required"))


@pytest.mark.parametrize("text", ["required", "requested"])
def test_ssl_client_auth_of_a_plaintext_listener_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="listener plaintext is PLAINTEXT: no client would be asked"):
        check(loaded(BOTH, f"{LISTENER}.plaintext.ssl.client.auth={text}"))


def test_a_tls_key_without_effect_on_a_plaintext_listener_is_reported() -> None:
    config = loaded(BOTH, f"{LISTENER}.plaintext.ssl.keystore.location=/k", f"{LISTENER}.ssl.ssl.keystore.location=/k")
    check(config)
    (line,) = of_settings(config)
    assert line == f"without effect, because their listener has no TLS: {LISTENER}.plaintext.ssl.keystore.location"


@pytest.mark.parametrize(
    "settings",
    [
        ("listeners=PLAINTEXT://:9092", "ssl.vendors.own=1"),
        (SSL, "ssl.engine.factory.class=a.B", "ssl.provider=x", "ssl.trustmanager.algorithm=PKIX"),
        (SSL, "ssl.keymanager.algorithm=x", "ssl.secure.random.implementation=x", "ssl.allow.dn.changes=true"),
        (SSL, "ssl.allow.san.changes=true", "ssl.endpoint.identification.algorithm=", f"{LISTENER}.a.ssl.protocol=x"),
        (SSL, f"{LISTENER}.ssl.max.connections=5", f"{LISTENER}.ssl.sasl.enabled.mechanisms=PLAIN"),
        (SSL, f"{LISTENER}.ssl.ssl.client.auth=required", f"{LISTENER}.ssl.ssl.provider=x"),
        ("listeners=OUT.SIDE://:1", "listener.security.protocol.map=OUT.SIDE:SSL",
         f"{LISTENER}.out.side.ssl.client.auth=required"),
        ("listeners=SSL://:1,CONTROLLER://:2", "controller.listener.names=CONTROLLER",
         f"{LISTENER}.controller.ssl.client.auth=required"),
    ],
)
def test_correct_tls_keys_and_keys_of_vendors_are_accepted(settings: tuple[str, ...]) -> None:
    check(loaded(*settings))
