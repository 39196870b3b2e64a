"""SASL listeners: how their settings are read, and which ones stop the start."""

from __future__ import annotations

import pytest

from pybroker.config import BrokerConfig, ConfigError, unprotected
from pybroker.config.keys.key import PASSWORD
from pybroker.config.sasl_listeners import (
    KERBEROS_MODULE,
    PLAIN_MODULE,
    SCRAM_MODULE,
    OAuth,
    Remote,
    between_by_kerberos,
    read,
)

PLAIN = f'{PLAIN_MODULE} required user_alice="secret-1" user_bob=\'secret 2\';'
SCRAM = f"{SCRAM_MODULE} required;"
LISTENS = "listeners=SASL_PLAINTEXT://:9092"
OWN = "listener.name.sasl_plaintext"
ENABLED = "sasl.enabled.mechanisms=PLAIN"


def loaded(*settings: str) -> BrokerConfig:
    return BrokerConfig.load(settings, {})


def check(*settings: str) -> None:
    unprotected.check(loaded(*settings), alone=True)


def test_the_users_of_plain_come_from_the_options_of_the_login_module() -> None:
    config = loaded(LISTENS, ENABLED, f"{OWN}.plain.sasl.jaas.config={PLAIN}")
    found = read(config, "SASL_PLAINTEXT")
    assert (found.mechanisms, found.passwords) == ({"PLAIN": 0}, {"alice": "secret-1", "bob": "secret 2"})
    unprotected.check(config, alone=True)


def test_sasl_jaas_config_without_a_prefix_is_used_if_one_mechanism_is_enabled() -> None:
    check(LISTENS, ENABLED, f"sasl.jaas.config={PLAIN}")
    with pytest.raises(ConfigError, match=r"plain\.sasl\.jaas\.config has no user"):
        check(LISTENS, "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256", f"sasl.jaas.config={PLAIN}")


def test_a_sasl_setting_may_be_for_one_listener_or_one_mechanism_only() -> None:
    config = loaded(
        "listeners=A://:1,B://:2",
        "listener.security.protocol.map=A:SASL_PLAINTEXT,B:SASL_SSL",
        "sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.b.sasl.enabled.mechanisms=SCRAM-SHA-512",
        "connections.max.reauth.ms=1000",
        "listener.name.a.connections.max.reauth.ms=2000",
        "listener.name.a.scram-sha-256.connections.max.reauth.ms=3000",
        f"listener.name.a.scram-sha-256.sasl.jaas.config={SCRAM}",
    )
    assert read(config, "A").mechanisms == {"SCRAM-SHA-256": 3000, "SCRAM-SHA-512": 2000}
    assert read(config, "B").mechanisms == {"SCRAM-SHA-512": 1000}
    unprotected.check(config, alone=True)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            [],
            r": sasl.enabled.mechanisms is not set, and its default GSSAPI .*: set PLAIN, SCRAM-SHA-256, .* or GSSAPI "
            rf"\(or set {OWN}.sasl.enabled.mechanisms, for this listener only\)$",
        ),
        (["sasl.enabled.mechanisms=NTLM"], r"sasl.enabled.mechanisms \(from --set\) has NTLM, which is not supported"),
        (["sasl.enabled.mechanisms=SCRAM-SHA-256,NTLM"], "has NTLM, which is not supported"),
        (["sasl.enabled.mechanisms=plain"], "has plain, which is not supported"),
        (["sasl.enabled.mechanisms="], "is not set"),
        ([f"{OWN}.sasl.enabled.mechanisms=NTLM", ENABLED], f"{OWN}.sasl.enabled.mechanisms .* NTLM"),
        ([ENABLED], f"{OWN}.plain.sasl.jaas.config has no user: user_NAME="),
        ([ENABLED, f"sasl.jaas.config={PLAIN_MODULE} required username=a password=b;"], "has no user"),
        ([ENABLED, f"sasl.jaas.config={PLAIN_MODULE} required usr_a=secret;"], "option 1 is unknown: .* user_"),
        ([ENABLED, f"sasl.jaas.config={PLAIN_MODULE} required user_a=x user_a=secret;"], "option 2 is a duplicate"),
        ([ENABLED, f"sasl.jaas.config={PLAIN}", "sasl.enabled.mechanism=x"], "mean sasl.enabled.mechanisms"),
        (["sasl.enabled.mechanism=PLAIN"], r"sasl.enabled.mechanism \(from --set\) is unknown: did you mean"),
        ([ENABLED, f"sasl.jaas.config={SCRAM}"], "is not of org.*PlainLoginModule"),
        ([ENABLED, "sasl.jaas.config=com.sun.security.auth.module.JndiLoginModule required;"], "the only supported"),
        ([ENABLED, "sasl.jaas.config=com.sun.security.auth.module.LdapLoginModule required;"], "the only supported"),
        ([ENABLED, f"sasl.jaas.config={PLAIN}", "sasl.server.callback.handler.class=a.B"], "a.B, and no class can be"),
        ([ENABLED, f"sasl.jaas.config={PLAIN}", f"{OWN}.plain.sasl.server.callback.handler.class=a.B"], "no class can"),
        ([ENABLED, f"sasl.jaas.config={PLAIN}", f"{OWN}.plain.sasl.jaas.confg=x"], f"confg .*mean {OWN}.plain.sasl"),
        ([ENABLED, f"sasl.jaas.config={PLAIN}", f"{OWN}.plane.connections.max.reauth.ms=1"], "plane.* is unknown: did"),
        ([ENABLED, f"sasl.jaas.config={PLAIN}", "listener.name.sasl.connections.max.reauth.ms=1"], "is unknown: did"),
        ([ENABLED, f"sasl.jaas.config={PLAIN}", "listener.name.SASL_PLAINTEXT.plain.sasl.jaas.config=x"], "is unknown"),
    ],
)
def test_a_sasl_listener_with_invalid_settings_stops_the_start(settings: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        check(LISTENS, *settings)
    assert "secret" not in str(caught.value)


BY_KERBEROS = "sasl.enabled.mechanisms=GSSAPI"
SERVICE = "sasl.kerberos.service.name=kafka"
KEYTAB = f'{KERBEROS_MODULE} required useKeyTab=true storeKey=true keyTab="/etc/k" principal="kafka/host@REALM.COM";'


def test_the_kerberos_principal_and_keytab_come_from_the_login_module() -> None:
    rules = "sasl.kerberos.principal.to.local.rules=RULE:[1:$1]/L,DEFAULT"
    config = loaded(LISTENS, BY_KERBEROS, SERVICE, f"{OWN}.gssapi.sasl.jaas.config={KEYTAB}", rules)
    unprotected.check(config, alone=True)
    found = read(config, "SASL_PLAINTEXT")
    service = ("kafka/host@REALM.COM", "/etc/k", ("RULE:[1:$1]/L", "DEFAULT"))
    assert (found.mechanisms, found.kerberos) == ({"GSSAPI": 0}, service)


def test_kerberos_settings_of_a_listener_and_its_mechanism_override_common_ones() -> None:
    settings = ["sasl.enabled.mechanisms=PLAIN,GSSAPI", f"{OWN}.plain.sasl.jaas.config={PLAIN}"]
    own = [f"{OWN}.gssapi.sasl.jaas.config={KEYTAB}", f"{OWN}.sasl.kerberos.service.name=kafka"]
    own += [f"{OWN}.gssapi.sasl.kerberos.principal.to.local.rules=RULE:[1:$1]"]
    config = loaded(LISTENS, *settings, *own, "sasl.kerberos.service.name=other")
    unprotected.check(config, alone=True)
    assert read(config, "SASL_PLAINTEXT").kerberos == ("kafka/host@REALM.COM", "/etc/k", ("RULE:[1:$1]",))


def test_a_kerberos_login_module_enables_gssapi_if_no_mechanism_is_set() -> None:
    config = loaded(LISTENS, f"sasl.jaas.config={KEYTAB.replace(';', ' serviceName=kafka;')}")
    unprotected.check(config, alone=True)
    assert read(config, "SASL_PLAINTEXT").kerberos == ("kafka/host@REALM.COM", "/etc/k", ("DEFAULT",))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ([f"sasl.jaas.config={KEYTAB}"], "service.name is not set: give the first part of the broker's principal"),
        ([SERVICE], f"{OWN}.gssapi.sasl.jaas.config must have useKeyTab"),
        ([SERVICE, f"sasl.jaas.config={KERBEROS_MODULE} required useTicketCache=true;"], "must have useKeyTab"),
        ([SERVICE, f"sasl.jaas.config={KERBEROS_MODULE} required useKeyTab=true;"], 'principal="kafka/HOST@REALM"'),
        ([SERVICE, f"sasl.jaas.config={KEYTAB.replace('/host', '')}"], 'principal="kafka/HOST@REALM"'),
        (["sasl.kerberos.service.name=x", f"sasl.jaas.config={KEYTAB}"], "principal kafka/host.*the service is x"),
        ([SERVICE, f"sasl.jaas.config={KEYTAB.replace(';', ' serviceName=x;')}"], "is kafka, but serviceName .* is x"),
        ([SERVICE, f"sasl.jaas.config={PLAIN}"], "is not of com.sun.*Krb5LoginModule"),
        ([SERVICE, f"sasl.jaas.config={KEYTAB.replace('keyTab=', 'keytab=')}"], "option 3 is unknown: .* keyTab"),
    ],
)
def test_an_invalid_kerberos_service_stops_the_start(settings: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        check(LISTENS, BY_KERBEROS, *settings)


WITHOUT_FILE = KEYTAB.replace('keyTab="/etc/k"', "")
BETWEEN = ["sasl.mechanism.inter.broker.protocol=GSSAPI", "security.inter.broker.protocol=SASL_PLAINTEXT"]


def test_brokers_log_in_to_each_other_by_kerberos_if_a_sasl_listener_and_gssapi_are_set() -> None:
    of_clients = [LISTENS, BY_KERBEROS, SERVICE, f"sasl.jaas.config={KEYTAB}"]
    config = loaded(*of_clients, *BETWEEN)
    unprotected.check(config, alone=False)
    assert between_by_kerberos(config) == "SASL_PLAINTEXT"
    assert between_by_kerberos(loaded(*of_clients, BETWEEN[1])) is None, "Kafka's default does not count"
    assert between_by_kerberos(loaded(*of_clients, f"{LISTENS},PLAINTEXT://:2", BETWEEN[0])) is None


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["sasl.enabled.mechanisms=SCRAM-SHA-256"], "=GSSAPI .*the listener SASL_PLAINTEXT, which does not"),
        ([BY_KERBEROS, SERVICE, f"sasl.jaas.config={WITHOUT_FILE}"], 'must have keyTab="FILE"'),
    ],
)
def test_an_invalid_login_between_brokers_stops_the_start(settings: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        check(LISTENS, *BETWEEN, *settings)


TOKENS = "sasl.enabled.mechanisms=OAUTHBEARER"
KEYS = "sasl.oauthbearer.jwks.endpoint.url=file:///etc/the%20keys.json"
FROM, FOR = "sasl.oauthbearer.expected.issuer=https://issuer", "sasl.oauthbearer.expected.audience=kafka,other"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ([], f"{OWN}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url is not set: without keys"),
        (["sasl.oauthbearer.jwks.endpoint.url=ftp://a"], "must be file:///…, https://… or http://"),
        (["sasl.oauthbearer.jwks.endpoint.url=https://"], "must be file:///…, https://… or http://"),
        (["sasl.oauthbearer.jwks.endpoint.url=https://me:secret@a/"], "must not have a name or password"),
        ([KEYS, FOR], "expected.issuer is not set, and sasl.oauthbearer.allow.unverified.issuer is not true"),
        ([KEYS, FROM], "expected.audience is not set, and sasl.oauthbearer.allow.unverified.audience is not true"),
        ([KEYS, FROM, FOR, f"sasl.server.callback.handler.class={'a.' * 3}OAuthBearerUnsecured"], "no class can be"),
        ([KEYS, FROM, FOR, f"sasl.jaas.config={SCRAM}"], "is not of org.*OAuthBearerLoginModule"),
        ([KEYS, FROM, FOR, f"{OWN}.oauthbearer.sasl.oauthbearer.expectd.issuer=x"], "is unknown: did you mean"),
    ],
)
def test_cve_2026_110985_oauthbearer_settings_that_cannot_verify_tokens_stop_the_start(
    settings: list[str], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        check(LISTENS, TOKENS, *settings)


def test_the_keys_of_oauthbearer_may_come_over_https() -> None:
    given = ["sasl.oauthbearer.jwks.endpoint.url=https://idp/keys?x=1", FROM, FOR,
             f"{OWN}.oauthbearer.sasl.oauthbearer.jwks.endpoint.refresh.ms=5000"]
    found = read(loaded(LISTENS, TOKENS, *given), "SASL_PLAINTEXT").oauth
    assert found is not None
    assert found.remote == Remote("https://idp/keys?x=1", 5.0, 0.1, 10.0)
    check(LISTENS, TOKENS, *given)


def test_cve_2025_27817_a_url_outside_kafkas_list_of_allowed_urls_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = (LISTENS, TOKENS, FROM, FOR)
    monkeypatch.setenv("KAFKA_OPTS", "-Xa -Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=https://a/k,file:///k -Dx")
    for url in ("https://a/k", "file:///k"):
        check(*settings, f"sasl.oauthbearer.jwks.endpoint.url={url}")
    for url in ("https://a/", "https://b/k", "file:///etc/k"):
        with pytest.raises(ConfigError, match=r"which is not in -Dorg\.apache.*allowed\.urls of KAFKA_OPTS"):
            check(*settings, f"sasl.oauthbearer.jwks.endpoint.url={url}")


def test_the_oauthbearer_settings_of_a_listener_are_read() -> None:
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
    config = loaded(LISTENS, TOKENS, KEYS, FROM, FOR, f"{OWN}.oauthbearer.sasl.server.callback.handler.class={handler}",
                    f"{OWN}.oauthbearer.sasl.oauthbearer.sub.claim.name=azp")
    unprotected.check(config, alone=True)
    assert read(config, "SASL_PLAINTEXT").oauth == OAuth(
        "/etc/the keys.json", "https://issuer", ("kafka", "other"), 30, "azp"
    )
    any_will_do = [f"sasl.oauthbearer.allow.unverified.{each}=true" for each in ("issuer", "audience")]
    found = read(loaded(LISTENS, TOKENS, KEYS, *any_will_do), "SASL_PLAINTEXT").oauth
    assert found is not None
    assert (found.issuer, found.audience, found.user_claim) == (None, (), "sub")


@pytest.mark.parametrize(
    "settings",
    [
        ["listeners=PLAINTEXT://:9092", "sasl.enabled.mechanisms=GSSAPI", "sasl.jaas.config=x"],
        [LISTENS, ENABLED, f"sasl.jaas.config={PLAIN}", f"{OWN}.scram-sha-512.sasl.jaas.config={SCRAM}"],
        [LISTENS, ENABLED, f"sasl.jaas.config={PLAIN}", f"{OWN}.gssapi.sasl.kerberos.service.name=kafka"],
        [LISTENS, ENABLED, f"sasl.jaas.config={PLAIN}", f"{OWN}.max.connections=5", "sasl.plug.in=x"],
        [f"{LISTENS},CONTROLLER://:1", ENABLED, f"sasl.jaas.config={PLAIN}", "controller.listener.names=CONTROLLER",
         "listener.name.controller.sasl.enabled.mechanisms=GSSAPI"],
    ],
)
def test_settings_that_do_not_affect_authentication_are_accepted(settings: list[str]) -> None:
    check(*settings)


def test_client_keys_and_client_environment_variables_do_not_stop_the_start() -> None:
    mine = [LISTENS, ENABLED, f"sasl.jaas.config={PLAIN}"]
    check(*mine, "sasl.mechanism=PLAIN")
    shared = {"KAFKA_SASL_MECHANISM": "PLAIN", "KAFKA_SASL_USERNAME": "a", "KAFKA_SASL_ENABLED_MECHANISM": "PLAIN"}
    unprotected.check(BrokerConfig.load(mine, shared), alone=True)


def test_brokers_may_connect_to_each_other_over_a_sasl_listener() -> None:
    several = (LISTENS, ENABLED, f"sasl.jaas.config={PLAIN}")
    unprotected.check(loaded(*several, "security.inter.broker.protocol=SASL_PLAINTEXT"), alone=False)
    unprotected.check(loaded(*several, "inter.broker.listener.name=SASL_PLAINTEXT"), alone=False)
    with pytest.raises(ConfigError, match=r"security.inter.broker.protocol=PLAINTEXT: brokers would use it"):
        unprotected.check(loaded(*several), alone=False)
    with pytest.raises(ConfigError, match=r"security.inter.broker.protocol=SASL_SSL .*: brokers would use it"):
        unprotected.check(loaded(*several, "security.inter.broker.protocol=SASL_SSL"), alone=False)


def test_the_options_of_a_login_module_are_secret() -> None:
    config = loaded(f"{OWN}.plain.sasl.jaas.config={PLAIN}")
    assert [(key.name, key.type) for key in config.keys_of_listeners] == [(f"{OWN}.plain.sasl.jaas.config", PASSWORD)]
