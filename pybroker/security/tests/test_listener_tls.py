"""TLS of a listener, of its keys and files, and when they change."""

from __future__ import annotations

import contextlib
import datetime
import logging
import ssl
from pathlib import Path

import pytest
import trustme

from pybroker.config import BrokerConfig, ConfigError, listeners
from pybroker.security.listener_tls import ANONYMOUS, ListenerTls, secured

CA = trustme.CA()
LOCATION = "ssl.keystore.location"


def keys(path: Path, *names: str, **options: object) -> str:
    """A key store in PEM."""
    leaf = CA.issue_cert(*(names or ("localhost",)), **options)  # type: ignore[arg-type]
    leaf.private_key_and_cert_chain_pem.write_to_path(str(path))
    return str(path)


def shown(tls: ListenerTls) -> bytes | None:
    """The certificate that a new client sees."""
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
    """The first one of a key store."""
    _, begin, rest = Path(path).read_text().partition("-----BEGIN CERTIFICATE-----")
    body, end, _ = rest.partition("-----END CERTIFICATE-----")
    return ssl.PEM_cert_to_DER_cert(begin + body + end)


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig({name.replace("_", "."): text for name, text in settings.items()})


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
    both = secured(settings, listeners(settings))
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
def test_what_is_wrong_is_told_with_the_key_and_where_it_was_given(settings: dict[str, str], told: str) -> None:
    given = BrokerConfig.load([f"{name}={text}" for name, text in settings.items()], {}, source="here")
    with pytest.raises(ConfigError, match=told):
        ListenerTls(given, "SSL")


def test_a_file_that_changes_is_read_again_and_a_broken_one_is_not_taken(
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
    assert ["again" in each for each in told] == [True, False, False, True]
    assert f"keeps its certificate as it was: {LOCATION}: {path}" in told[1]


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
    assert "certificate of listener SSL is valid until 2020-01-02 only" in caplog.text


def test_no_password_is_told(tmp_path: Path) -> None:
    settings = {"ssl_keystore_location": keys(tmp_path / "keys.pem"), "ssl_keystore_password": "s3cr3t"}
    with pytest.raises(ConfigError) as caught:
        ListenerTls(config(**settings), "SSL")
    assert "s3cr3t" not in str(caught.value)
