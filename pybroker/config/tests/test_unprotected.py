"""A broker with incomplete security settings does not start unprotected."""

from __future__ import annotations

import pytest

from pybroker.config import BrokerConfig, ConfigError
from pybroker.config.unprotected import check

SASL = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OUTSIDE:SASL_SSL"
MECHANISM = "sasl.enabled.mechanisms=SCRAM-SHA-256"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["authorizer.class.name=a.StandardAuthorizer"], r"class.name=a.StandardAuthorizer.*no such authorizer"),
        (["ssl.client.auth=required"], "ssl.client.auth=required.*no listener is SSL"),
        (["listener.name.a.ssl.client.auth=required"], "listener.name.a.ssl.client.auth=required.*the name a,"),
        (["listeners=SSL://:1", "listener.name.SSL.ssl.client.auth=required"], "SSL.ssl.client.auth.*small letters"),
        (["listeners=OUTSIDE://:2", SASL, MECHANISM, "ssl.client.auth=required"], "no listener is SSL"),
        (["zookeeper.set.acl=true", "zookeeper.connect=a:1"], "zookeeper.set.acl=true.*keystore.location are missing"),
        (["zookeeper.set.acl=true", "zookeeper.connect=a:1", "zookeeper.ssl.client.enable=true"], "would not know"),
        (["zookeeper.set.acl=true", "zookeeper.connect=a:1", "zookeeper.ssl.keystore.location=k"], "would not know"),
        (["zookeeper.connect=a:1", "zookeeper.ssl.truststore.location=k"], "would be plain: .*client.enable=true is"),
    ],
)
def test_a_security_setting_that_would_have_no_effect_is_refused(settings: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=rf"{says}.*open to everybody"):
        check(BrokerConfig.load(settings, {}), alone=True)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["security.inter.broker.protocol=SSL"], "security.inter.broker.protocol=SSL .*: brokers would use it"),
        (["listeners=SSL://:1"], "security.inter.broker.protocol=PLAINTEXT: brokers would use it"),
        (["listeners=PLAINTEXT://:1,SSL://:2", "inter.broker.listener.name=no"], "listener.name=no .*: brokers would"),
    ],
)
def test_several_brokers_need_an_inter_broker_listener(settings: list[str], says: str) -> None:
    config = BrokerConfig.load(settings, {})
    with pytest.raises(ConfigError, match=says):
        check(config, alone=False)
    check(config, alone=True)


@pytest.mark.parametrize("alone", [True, False])
def test_two_settings_for_the_inter_broker_listener_are_refused(alone: bool) -> None:
    settings = ["listeners=A://:1,SSL://:2", "listener.security.protocol.map=A:PLAINTEXT,SSL:SSL"]
    settings += ["inter.broker.listener.name=A", "security.inter.broker.protocol=SSL"]
    with pytest.raises(ConfigError, match=r"listener\.name=A .*: security\.inter\.broker\.protocol=SSL is set"):
        check(BrokerConfig.load(settings, {}), alone=alone)


@pytest.mark.parametrize(
    "settings",
    [
        ["listeners=SSL://:1", "security.inter.broker.protocol=SSL"],
        ["listeners=PLAINTEXT://:1,SSL://:2", "inter.broker.listener.name=ssl"],
        ["listeners=SSL://:1", "listener.security.protocol.map=SSL:PLAINTEXT"],
    ],
)
def test_brokers_may_connect_to_each_other_over_a_tls_listener(settings: list[str]) -> None:
    check(BrokerConfig.load(settings, {}), alone=False)


@pytest.mark.parametrize(
    "settings",
    [
        [],
        ["listeners=SSL://:1,PLAINTEXT://:2", "ssl.client.auth=required", "listener.name.ssl.ssl.client.auth=required"],
        ["sasl.enabled.mechanisms=PLAIN", "ssl.keystore.location=/k", "ssl.client.auth=requested"],
        ["listeners=PLAINTEXT://:1,CONTROLLER://:2", "controller.listener.names=CONTROLLER",
         "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL,SSL:SSL"],
        ["zookeeper.set.acl=true"],
        ["security.inter.broker.protocol=SASL_SSL"],
        ["listeners=OUTSIDE://:2", SASL, MECHANISM, "listener.name.outside.ssl.client.auth=required"],
    ],
)
def test_security_settings_that_do_not_mislead_are_accepted(settings: list[str]) -> None:
    check(BrokerConfig.load(settings, {}), alone=True)
