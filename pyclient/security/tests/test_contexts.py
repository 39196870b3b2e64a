"""TLS contexts: who trusts whom, the protocols, and the errors about wrong settings."""

from __future__ import annotations

import contextlib
import os
import ssl

import pytest
import trustme

from pyclient.security import TlsConfigError, client_context, server_context
from pyclient.security.tests.making import (
    KEY_PASSWORD,
    PASSWORD,
    identity,
    jks_store,
    pkcs12_keys,
    pkcs12_trust,
    world,
    written,
)


def meet(server, client, name="localhost"):
    """Performs a handshake in memory. Returns both sides. Raises ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    waiting = list(sides)
    for _ in range(10):
        for side in tuple(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                pass
    assert not waiting
    for side in reversed(sides):  # in TLS 1.3 the server refuses a client's certificate after the client is done
        with contextlib.suppress(ssl.SSLWantReadError):
            side.read(1)
    return sides


def keys_of(who):
    return {"ssl.keystore.key": who.key, "ssl.keystore.certificate.chain": "\n".join(who.chain)}


def trust():
    return {"ssl.truststore.certificates": world().authority}


def test_a_client_that_trusts_the_authority_connects():
    client, _ = meet(server_context(keys_of(world().server)), client_context(trust()))
    assert client.version() == "TLSv1.3"


def test_every_store_type_works(tmp_path):
    made = world()
    kinds = {
        "pem": (made.server.encrypted_key + made.server.chain[0], made.authority),
        "p12": (pkcs12_keys(made.server), pkcs12_trust(made.authority)),
        "jks": (jks_store(keys=[made.server]), jks_store(trusted=[made.authority])),
    }
    for kind, (keys, trusted) in kinds.items():
        password = None if kind == "pem" else PASSWORD
        server = server_context(
            {
                "ssl.keystore.location": written(tmp_path, f"keys.{kind}", keys),
                "ssl.keystore.password": password,
                "ssl.key.password": KEY_PASSWORD if kind == "pem" else None,
            }
        )
        client = client_context(
            {
                "ssl.truststore.location": written(tmp_path, f"trust.{kind}", trusted),
                "ssl.truststore.password": password,
            }
        )
        meet(server, client)


def test_a_certificate_of_another_authority_is_refused():
    stranger = identity(trustme.CA().issue_cert("localhost"))
    with pytest.raises(ssl.SSLCertVerificationError):
        meet(server_context(keys_of(stranger)), client_context(trust()))
    with pytest.raises(ssl.SSLCertVerificationError):
        meet(server_context(keys_of(stranger)), client_context({}))


def test_the_host_name_is_verified_unless_that_is_disabled():
    server = server_context(keys_of(world().server))
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        meet(server, client_context(trust()), "example.org")
    meet(server, client_context(trust()), "127.0.0.1")
    meet(server, client_context(trust() | {"ssl.endpoint.identification.algorithm": ""}), "example.org")
    with pytest.raises(TlsConfigError, match="none is neither https nor empty"):
        client_context({"ssl.endpoint.identification.algorithm": "none"})


def test_a_trusted_certificate_need_not_be_self_signed():
    chain = world().server.chain
    meet(server_context(keys_of(world().server)), client_context({"ssl.truststore.certificates": chain[0]}))


def test_a_server_requests_client_certificates_as_configured():
    made = world()
    for wanted, refused in (("none", False), ("requested", False), ("required", True)):
        server = server_context(keys_of(made.server) | trust() | {"ssl.client.auth": wanted})
        _, seen = meet(server, client_context(trust() | keys_of(made.client)))
        assert bool(seen.getpeercert()) is (wanted != "none")
        if refused:
            with pytest.raises(ssl.SSLError):
                meet(server, client_context(trust()))
        else:
            meet(server, client_context(trust()))
    with pytest.raises(TlsConfigError, match=r"ssl.client.auth: maybe is not one of"):
        server_context(keys_of(made.server) | {"ssl.client.auth": "maybe"})
    for wanted in ("required", "requested"):
        with pytest.raises(TlsConfigError, match=r"ssl.client.auth: .*ssl.truststore.\*, which is not set"):
            server_context(keys_of(made.server) | {"ssl.client.auth": wanted})
    assert not server_context(keys_of(made.server)).get_ca_certs()
    with pytest.raises(TlsConfigError, match=r"ssl.truststore.certificates: is given, but empty"):
        server_context(keys_of(made.server) | {"ssl.client.auth": "required", "ssl.truststore.certificates": ""})
    with pytest.raises(TlsConfigError, match=r"ssl.keystore.location: is missing: .*`pybroker tls create DIR` makes"):
        server_context({})


@pytest.mark.parametrize(
    ("settings", "version", "cipher"),
    [
        ({"ssl.enabled.protocols": "TLSv1.2"}, "TLSv1.2", ""),
        ({"ssl.enabled.protocols": "TLSv1.2,TLSv1.1,TLSv1"}, "TLSv1.2", ""),
        ({"ssl.enabled.protocols": ("TLSv1.3",)}, "TLSv1.3", ""),
        ({"ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"}, "TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ({"ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"}, "TLSv1.2", "ECDHE-ECDSA-CHACHA20"),
        ({"ssl.cipher.suites": ["ECDHE-ECDSA-AES128-GCM-SHA256"]}, "TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ({"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"}, "TLSv1.3", "TLS_AES_256_GCM_SHA384"),
    ],
)
def test_protocols_and_cipher_suites_have_javas_names(settings, version, cipher):
    client, _ = meet(server_context(keys_of(world().server)), client_context(trust() | settings))
    assert client.version() == version
    assert client.cipher()[0].startswith(cipher)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"ssl.enabled.protocols": "TLSv1.4"}, "ssl.enabled.protocols: TLSv1.4 is not one of TLSv1.2, TLSv1.3"),
        ({"ssl.enabled.protocols": "TLSv1"}, "ssl.enabled.protocols: all of them are outdated"),
        ({"ssl.cipher.suites": "TLS_RSA_WITH_ROT13"}, "ssl.cipher.suites: TLS_RSA_WITH_ROT13 is unknown"),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256", "ssl.enabled.protocols": "TLSv1.2"},
            "ssl.cipher.suites: no protocol of TLSv1.2 has one of them"),
    ],
)  # fmt: skip
def test_unknown_protocols_and_cipher_suites_are_refused(settings, text):
    with pytest.raises(TlsConfigError, match=text):
        client_context(settings)


def test_a_server_uses_dhe_suites_only_if_configured():
    def names(settings):
        made = server_context(keys_of(world().server) | settings)
        return [each["name"] for each in made.get_ciphers() if "kx-dhe" in each["kea"]]

    assert not names({})
    assert names({"ssl.cipher.suites": "DHE-RSA-AES128-GCM-SHA256"}) == ["DHE-RSA-AES128-GCM-SHA256"]


def test_the_error_about_an_unusable_key_hides_secrets(tmp_path):
    made = world()
    foreign = {"ssl.keystore.key": made.client.key, "ssl.keystore.certificate.chain": made.server.chain[0]}
    with pytest.raises(TlsConfigError, match=r"ssl.keystore.key: the key is not the one of the first certificate"):
        client_context(foreign)
    path = written(tmp_path, "locked.pem", made.client.encrypted_key + made.client.chain[0])
    with pytest.raises(TlsConfigError, match=r"ssl.key.password: .*locked.pem: the password does not open") as raised:
        client_context({"ssl.keystore.location": path, "ssl.key.password": "hush"})
    assert "hush" not in str(raised.value)
    broken = made.authority.replace("M", "N")
    with pytest.raises(TlsConfigError, match=r"ssl.truststore.certificates: a certificate cannot be read"):
        client_context({"ssl.truststore.certificates": broken})


def test_a_key_is_loaded_on_a_system_without_memfd(monkeypatch, tmp_path):
    made = world()
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    meet(server_context(keys_of(made.server)), client_context(trust()))
    assert not list(tmp_path.iterdir())
