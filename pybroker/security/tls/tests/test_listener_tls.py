"""TLS of a listener: its keys and files, and their changes."""

from __future__ import annotations

import contextlib
import datetime
import logging
import ssl
from pathlib import Path

import pytest
import trustme

from pybroker.config import BrokerConfig, ConfigError
from pybroker.security.tls.broker_tls import BrokerTls
from pybroker.security.tls.listener_tls import ANONYMOUS, ListenerTls
from pyclient.keywords import with_dots

CA = trustme.CA()
LOCATION = "ssl.keystore.location"


def keys(path: Path, *names: str, **options: object) -> str:
    """Writes a key store in PEM; returns its path."""
    leaf = CA.issue_cert(*(names or ("localhost",)), **options)  # type: ignore[arg-type]
    leaf.private_key_and_cert_chain_pem.write_to_path(str(path))
    return str(path)


def shown(tls: ListenerTls) -> bytes | None:
    """Returns the certificate that a new client sees."""
    here, there = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = tls.context.wrap_bio(there, here, server_side=True)
    trusting = ssl.create_default_context()
    CA.configure_trust(trusting)
    client = trusting.wrap_bio(here, there, server_hostname="localhost")
    for _ in range(3):
        for side in (client, server):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    return client.getpeercert(binary_form=True)


def certificate(path: str) -> bytes:
    """Returns the first certificate of a key store."""
    _, begin, rest = Path(path).read_text().partition("-----BEGIN CERTIFICATE-----")
    body, end, _ = rest.partition("-----END CERTIFICATE-----")
    return ssl.PEM_cert_to_DER_cert(begin + body + end)


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig(with_dots(settings))


def test_a_listener_has_its_own_keys_before_those_of_all(tmp_path: Path) -> None:
    common, own = keys(tmp_path / "common.pem"), keys(tmp_path / "own.pem")
    settings = BrokerConfig(
        {
            "listeners": "PLAINTEXT://:1,SSL://:2,OUT.side://:3",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,OUT.SIDE:SSL",
            LOCATION: common,
            "ssl.truststore.location": common,
            f"listener.name.out.side.{LOCATION}": own,
            "listener.name.out.side.ssl.client.auth": "required",
        }
    )
    both = BrokerTls(settings).listeners
    assert set(both) == {"SSL", "OUT.SIDE"}
    assert shown(both["SSL"]) == certificate(common)
    assert both["SSL"].context.verify_mode == ssl.CERT_NONE
    assert both["OUT.SIDE"].context.verify_mode == ssl.CERT_REQUIRED
    assert both["SSL"].principal(None) == ANONYMOUS


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "listener SSL: ssl.keystore.location: is missing"),
        ({LOCATION: "/none.pem"}, "listener SSL: ssl.keystore.location .from here.: /none.pem: No such file"),
        ({f"listener.name.ssl.{LOCATION}": "/none.pem"}, f"listener.name.ssl.{LOCATION} .from here."),
        ({"ssl.principal.mapping.rules": "RULE:x"}, "ssl.principal.mapping.rules .from here.: 'RULE:x' is neither"),
    ],
)
def test_an_error_names_the_key_and_its_source(settings: dict[str, str], told: str) -> None:
    given = BrokerConfig.load([f"{name}={text}" for name, text in settings.items()], {}, source="here")
    with pytest.raises(ConfigError, match=told):
        ListenerTls(given, "SSL")


def test_a_changed_file_is_reloaded_and_a_broken_one_is_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pybroker.security")
    path = tmp_path / "keys.pem"
    tls = ListenerTls(config(ssl_keystore_location=keys(path)), "SSL")
    first, context = shown(tls), tls.context
    tls.refresh()
    assert tls.context is context, "nothing has changed"
    keys(path)
    tls.refresh()
    second = shown(tls)
    assert second not in (None, first)
    path.write_text("-----BEGIN nothing")
    tls.refresh()
    tls.refresh()
    assert shown(tls) == second
    path.unlink()
    tls.refresh()
    assert shown(tls) == second
    keys(path)
    tls.refresh()
    assert shown(tls) not in (None, first, second)
    told = [record.getMessage() for record in caplog.records]
    assert ["reloaded" in each for each in told] == [True, False, False, True]
    assert f"keeps its earlier certificate: {LOCATION}: {path}" in told[1]


def test_a_key_that_changes_counts_for_new_connections(tmp_path: Path) -> None:
    settings = config(ssl_keystore_location=keys(tmp_path / "first.pem"))
    tls = ListenerTls(settings, "OUTSIDE")
    first = shown(tls)
    changed = settings.override({f"listener.name.outside.{LOCATION}": keys(tmp_path / "second.pem")}, {})
    assert changed == {f"listener.name.outside.{LOCATION}"}
    tls.refresh()
    second = shown(tls)
    assert second not in (None, first)
    settings.override({}, {})
    tls.refresh()
    assert shown(tls) == first


def test_an_expired_certificate_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    past = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    path = keys(tmp_path / "old.pem", not_before=past, not_after=past + datetime.timedelta(1))
    ListenerTls(config(ssl_keystore_location=path), "SSL")
    assert "certificate of listener SSL expired on 2020-01-02" in caplog.text


def test_repr_of_settings_hides_passwords(tmp_path: Path) -> None:
    settings = {"ssl_keystore_location": keys(tmp_path / "keys.pem"), "ssl_keystore_password": "s3cr3t"}
    with pytest.raises(ConfigError) as caught:
        ListenerTls(config(**settings), "SSL")
    assert "s3cr3t" not in str(caught.value)


def tried(tls: ListenerTls, given: BrokerConfig, **settings: str) -> str:
    """Returns the error about these dynamic settings, or nothing if they are accepted."""
    before = tls.context
    try:
        tls.try_out(given.overridden(with_dots(settings), {}))
    except ConfigError as error:
        return str(error)
    finally:
        assert tls.context is before, "it was only tried"
    return ""


def test_alter_configs_refuses_an_unusable_key_store(tmp_path: Path) -> None:
    given = config(ssl_keystore_location=keys(tmp_path / "keys.pem"))
    tls = ListenerTls(given, "SSL")
    broken, other = tmp_path / "broken.pem", tmp_path / "other.pem"
    broken.write_text(Path(keys(other)).read_text().replace("MII", "MIJ", 1))
    for path, why in ((tmp_path / "none.pem", "No such file"), (broken, "cannot be used")):
        said = tried(tls, given, listener_name_ssl_ssl_keystore_location=str(path))
        assert said.startswith(f"listener SSL: listener.name.ssl.{LOCATION} (from AlterConfigs): {path}: ")
        assert why in said
    assert "ssl.client.auth (from AlterConfigs): is required, but" in tried(tls, given, ssl_client_auth="required")
    assert tried(tls, given, num_io_threads="3") == ""


def test_alter_configs_refuses_a_certificate_of_another_name_or_for_fewer_hosts(tmp_path: Path) -> None:
    path = keys(tmp_path / "keys.pem", "localhost", "10.0.0.1", organization_unit_name="brokers")
    more = keys(tmp_path / "more.pem", "10.0.0.1", "localhost", "b", organization_unit_name="brokers")
    fewer = keys(tmp_path / "fewer.pem", "localhost", organization_unit_name="brokers")
    other = keys(tmp_path / "other.pem", "localhost", "10.0.0.1", organization_unit_name="others")
    given = config(ssl_keystore_location=path)
    tls = ListenerTls(given, "SSL")
    assert tried(tls, given, ssl_keystore_location=more) == ""
    assert "no longer be valid for 10.0.0.1: ssl.allow.san" in tried(tls, given, ssl_keystore_location=fewer)
    said = tried(tls, given, ssl_keystore_location=other)
    assert "would be OU=others,O=trustme" in said
    assert "and was OU=brokers,O=trustme" in said
    for allowing, path in (("ssl_allow_dn_changes", other), ("ssl_allow_san_changes", fewer)):
        lenient = config(ssl_keystore_location=str(tmp_path / "keys.pem"), **{allowing: "true"})
        assert tried(ListenerTls(lenient, "SSL"), lenient, ssl_keystore_location=path) == ""


def test_brokers_of_another_authority_do_not_pass_the_trial(tmp_path: Path) -> None:
    own, strange = tmp_path / "ca.pem", tmp_path / "strange.pem"
    other = trustme.CA()
    CA.cert_pem.write_to_path(str(own))
    leaf = other.issue_cert("localhost", organization_unit_name="brokers")
    leaf.private_key_and_cert_chain_pem.write_to_path(str(strange))
    given = config(
        ssl_keystore_location=keys(tmp_path / "keys.pem", organization_unit_name="brokers"),
        ssl_truststore_location=str(own),
    )
    tls = ListenerTls(given, "SSL", is_for_brokers=True)
    said = tried(tls, given, ssl_keystore_location=str(strange))
    assert "could not connect to each other: unable to get local issuer certificate" in said
    assert tried(ListenerTls(given, "SSL"), given, ssl_keystore_location=str(strange)) == ""


def test_files_are_reloaded_only_when_brokers_can_still_connect(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own, trusted, other = tmp_path / "keys.pem", tmp_path / "ca.pem", trustme.CA()
    CA.cert_pem.write_to_path(str(trusted))
    tls = ListenerTls(
        config(ssl_keystore_location=keys(own), ssl_truststore_location=str(trusted)), "SSL", is_for_brokers=True
    )
    before = tls.context
    other.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(own))
    tls.refresh()
    assert tls.context is before
    assert "keeps its earlier certificate: brokers could no longer connect: unable" in caplog.text
    other.cert_pem.write_to_path(str(trusted), append=True)
    tls.refresh()
    assert tls.context is not before


def test_a_broker_verifies_the_host_of_another_unless_disabled(tmp_path: Path) -> None:
    path = keys(tmp_path / "keys.pem")
    given = {"ssl_keystore_location": path, "ssl_truststore_location": path}
    by_default = ListenerTls(config(**given), "SSL", is_for_brokers=True)
    assert by_default.client_context.check_hostname
    off = ListenerTls(config(**given, ssl_endpoint_identification_algorithm=""), "SSL", is_for_brokers=True)
    assert not off.client_context.check_hostname
    assert off.client_context.verify_mode is ssl.CERT_REQUIRED


def test_a_listener_for_brokers_that_trusts_not_even_itself_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ListenerTls(config(ssl_keystore_location=keys(tmp_path / "keys.pem")), "SSL", is_for_brokers=True)
    assert "brokers with the settings of this one cannot connect to its listener SSL: unable to get" in caplog.text
