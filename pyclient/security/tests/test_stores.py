"""Key stores and trust stores: what is read, what is refused, and with which error."""

from __future__ import annotations

import os
import pickle
import random
import shutil
import ssl
import subprocess
import sys

import pytest

from pyclient.security import TlsConfigError, jks, key_store, trust_store
from pyclient.security.tests.making import (
    KEY_PASSWORD,
    PASSWORD,
    der,
    jks_store,
    pkcs12_keys,
    pkcs12_trust,
    world,
    written,
)


def as_der(blocks):
    return [der(each) for each in blocks]


def pkcs8(key):
    return ssl.PEM_cert_to_DER_cert(key.replace("PRIVATE KEY", "CERTIFICATE"))


def has_key(store, who, *, encrypted=False):
    assert pkcs8(store.key) == pkcs8(who.key)
    assert as_der(store.chain) == as_der(who.chain)
    return True


def test_settings_that_name_no_store_give_none():
    assert key_store({}) is None
    assert key_store({"ssl.keystore.location": None, "ssl.keystore.key": ""}) is None
    assert trust_store({"ssl.truststore.type": "JKS"}) is None


@pytest.mark.parametrize("declared", ["PEM", "pem", None])
def test_a_pem_is_given_as_a_file_or_as_text(tmp_path, declared):
    made = world()
    text = made.server.key + "\n".join(made.server.chain)
    of_file = key_store({"ssl.keystore.type": declared, "ssl.keystore.location": written(tmp_path, "server.pem", text)})
    inline = key_store(
        {
            "ssl.keystore.type": declared,
            "ssl.keystore.key": made.server.key,
            "ssl.keystore.certificate.chain": "\n".join(made.server.chain),
        }
    )
    assert of_file is not None
    assert inline is not None
    assert has_key(of_file, made.server)
    assert has_key(inline, made.server)
    for settings in (
        {"ssl.truststore.certificates": made.authority},
        {"ssl.truststore.location": written(tmp_path, "ca.pem", made.authority)},
    ):
        trusted = trust_store({"ssl.truststore.type": declared, **settings})
        assert trusted is not None
        assert as_der(trusted.certificates) == as_der([made.authority])


def test_blanks_and_comments_around_the_lines_of_a_pem_are_ignored():
    made = world()
    indented = "\n".join(f"    {line}  " for line in f"# mine\n{made.authority}".splitlines())
    trusted = trust_store({"ssl.truststore.certificates": indented})
    assert trusted is not None
    assert as_der(trusted.certificates) == as_der([made.authority])


@pytest.mark.parametrize("declared", ["PKCS12", "JKS", None])
def test_pkcs12_and_jks_are_told_apart_by_their_first_bytes(tmp_path, declared):
    made = world()
    for name, keys, trust in (
        ("p12", pkcs12_keys(made.server), pkcs12_trust(made.authority, made.server.chain[0])),
        ("jks", jks_store(keys=[made.server]), jks_store(trusted=[made.authority, made.server.chain[0]])),
        ("jks1", jks_store(keys=[made.server], version=1), jks_store(trusted=[made.authority, made.server.chain[0]])),
    ):
        store = key_store(
            {
                "ssl.keystore.type": declared,
                "ssl.keystore.location": written(tmp_path, f"keys.{name}", keys),
                "ssl.keystore.password": PASSWORD,
            }
        )
        assert store is not None
        assert has_key(store, made.server)
        trusted = trust_store(
            {
                "ssl.truststore.type": declared,
                "ssl.truststore.location": written(tmp_path, f"trust.{name}", trust),
                "ssl.truststore.password": PASSWORD,
            }
        )
        assert trusted is not None
        assert as_der(trusted.certificates) == as_der([made.authority, made.server.chain[0]])


def test_a_jks_needs_a_password_for_its_key_but_not_for_trusted_certificates(tmp_path):
    made = world()
    path = written(tmp_path, "keys.jks", jks_store(keys=[made.client], key_password=KEY_PASSWORD))
    settings = {"ssl.keystore.location": path, "ssl.keystore.password": PASSWORD}
    store = key_store(settings | {"ssl.key.password": KEY_PASSWORD})
    assert store is not None
    assert has_key(store, made.client)
    with pytest.raises(TlsConfigError, match=r"ssl.key.password: .*keys.jks: the password does not open its key"):
        key_store(settings)
    trusted = trust_store({"ssl.truststore.location": written(tmp_path, "t.jks", jks_store(trusted=[made.authority]))})
    assert trusted is not None
    of_key = trust_store({"ssl.truststore.location": path})
    assert of_key is not None
    assert as_der(of_key.certificates) == as_der(made.client.chain[:1])


def test_an_encrypted_key_keeps_its_password_and_its_repr_hides_both():
    made = world()
    store = key_store(
        {
            "ssl.keystore.key": made.client.encrypted_key,
            "ssl.keystore.certificate.chain": "\n".join(made.client.chain),
            "ssl.key.password": KEY_PASSWORD,
        }
    )
    assert store is not None
    assert store.password == KEY_PASSWORD
    assert KEY_PASSWORD not in repr(store)
    assert "BEGIN" not in repr(store)


KEY = {"ssl.keystore.key": "<key>"}
CHAIN = {"ssl.keystore.certificate.chain": "<chain>"}


@pytest.mark.parametrize(
    ("settings", "setting", "text"),
    [
        ({"ssl.keystore.location": ""}, "ssl.keystore.location", "is given, but empty"),
        (KEY, "ssl.keystore.certificate.chain", "must be set if ssl.keystore.key is set"),
        (CHAIN, "ssl.keystore.key", "must be set if"),
        ({**KEY, **CHAIN, "ssl.keystore.location": "/f"}, "ssl.keystore.location", "remove one of them"),
        ({**KEY, **CHAIN, "ssl.keystore.password": "hush"}, "ssl.keystore.password", "no store password"),
        ({**KEY, **CHAIN, "ssl.keystore.type": "JKS"}, "ssl.keystore.type", "is JKS, but ssl.keystore.key"),
        ({"ssl.keystore.type": "BCFKS", **KEY, **CHAIN}, "ssl.keystore.type", "not one of PEM, PKCS12, JKS"),
        ({"ssl.keystore.password": "hush"}, "ssl.keystore.location", "must be set if"),
        ({"ssl.keystore.location": "<pem>", "ssl.keystore.password": "hush"}, "ssl.keystore.password", "no store"),
        ({"ssl.keystore.location": "<p12>"}, "ssl.keystore.password", "is missing for .*p12, which is PKCS12"),
        ({"ssl.keystore.location": "<jks>"}, "ssl.keystore.password", "is missing for .*jks, which is JKS"),
        ({"ssl.keystore.location": "<pem>", "ssl.keystore.type": "JKS"}, "ssl.keystore.type", "but .*pem is PEM"),
        ({"ssl.keystore.location": "<p12>", "ssl.keystore.type": "PEM"}, "ssl.keystore.type", "but .*p12 is PKCS12"),
        ({"ssl.keystore.location": "<p12>", "ssl.keystore.password": "hush"}, "ssl.keystore.password", "does not open"),
        ({"ssl.keystore.location": "<jks>", "ssl.keystore.password": "hush"}, "ssl.keystore.password", "does not open"),
        ({"ssl.keystore.location": "/no/file"}, "ssl.keystore.location", "/no/file: No such file"),
        ({"ssl.keystore.location": "<jceks>"}, "ssl.keystore.location", "is JCEKS.*keytool"),
        ({"ssl.keystore.location": "<text>"}, "ssl.keystore.location", "is not one of PEM, PKCS12, JKS"),
        ({"ssl.keystore.location": "<ca>"}, "ssl.keystore.location", "has 0 private keys"),
        ({"ssl.keystore.location": "<trust jks>", "ssl.keystore.password": PASSWORD}, "ssl.keystore.location",
            "has no private key with a certificate"),
        ({"ssl.keystore.location": "<encrypted>"}, "ssl.key.password", "is missing: the key of .* is encrypted"),
        ({"ssl.keystore.location": "-----BEGIN PRIVATE KEY-----hush"}, "ssl.keystore.location", "is a PEM, not the"),
        ({**CHAIN, "ssl.keystore.key": "/etc/key.pem"}, "ssl.keystore.key", "is not a PEM"),
    ],
)  # fmt: skip
def test_an_error_of_a_key_store_names_setting_and_file(tmp_path, settings, setting, text):
    made = world()
    texts = {"<key>": made.server.key, "<chain>": made.server.chain[0]}
    files = {
        "<pem>": made.server.key + made.server.chain[0],
        "<encrypted>": made.server.encrypted_key + made.server.chain[0],
        "<ca>": made.authority,
        "<p12>": pkcs12_keys(made.server),
        "<jks>": jks_store(keys=[made.server]),
        "<trust jks>": jks_store(trusted=[made.authority]),
        "<jceks>": b"\xce\xce\xce\xce" + bytes(40),
        "<text>": "hush",
    }
    given = {
        name: texts.get(value) or (written(tmp_path, f"store.{value[1:-1]}", files[value]) if value in files else value)
        for name, value in settings.items()
    }
    with pytest.raises(TlsConfigError, match=text) as raised:
        key_store(given)
    assert raised.value.setting == setting
    assert str(raised.value).startswith(setting)
    assert "hush" not in str(raised.value)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


@pytest.mark.parametrize(
    ("settings", "setting", "text"),
    [
        ({"ssl.truststore.certificates": "<ca>", "ssl.truststore.location": "/f"}, "ssl.truststore.location", "one of"),
        ({"ssl.truststore.certificates": "<ca>", "ssl.truststore.password": "hush"}, "ssl.truststore.password", "no s"),
        ({"ssl.truststore.certificates": "<ca>", "ssl.truststore.type": "PKCS12"}, "ssl.truststore.type", "needs PEM"),
        ({"ssl.truststore.certificates": "ca.pem"}, "ssl.truststore.certificates", "give a file name as"),
        ({"ssl.truststore.password": "hush"}, "ssl.truststore.location", "must be set if"),
        ({"ssl.truststore.location": " "}, "ssl.truststore.location", "is given, but empty"),
        ({"ssl.truststore.certificates": ""}, "ssl.truststore.certificates", "is given, but empty"),
    ],
)
def test_an_error_of_a_trust_store_names_the_setting(settings, setting, text):
    given = {name: world().authority if value == "<ca>" else value for name, value in settings.items()}
    with pytest.raises(TlsConfigError, match=text) as raised:
        trust_store(given)
    assert raised.value.setting == setting
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize("what", ["pipe", "folder", "device", "NUL", "large"])
def test_a_path_that_cannot_be_a_store_is_refused_at_once(tmp_path, what):
    paths = {name: tmp_path / name for name in ("pipe", "large")}
    paths |= {"folder": tmp_path, "device": "/dev/zero", "NUL": "a\0b"}
    os.mkfifo(paths["pipe"])
    with open(paths["large"], "wb") as file:
        file.truncate((4 << 20) + 1)
    for read, setting in ((key_store, "ssl.keystore.location"), (trust_store, "ssl.truststore.location")):
        with pytest.raises(TlsConfigError, match=r"regular|directory|null|more than") as raised:
            read({setting: str(paths[what])})
        assert raised.value.setting == setting


def test_a_pkcs12_with_a_key_trusts_only_the_certificate_of_that_key(tmp_path):
    made = world()
    chain = (*made.server.chain[:1], made.authority)
    path = written(tmp_path, "keys.p12", pkcs12_keys(made.server._replace(chain=chain)))
    trusted = trust_store({"ssl.truststore.location": path, "ssl.truststore.password": PASSWORD})
    assert trusted is not None
    assert as_der(trusted.certificates) == as_der(chain[:1])


def test_a_jks_damaged_anywhere_is_refused_with_a_clear_error(tmp_path):
    made = world()
    whole = jks_store(keys=[made.server], trusted=[made.authority])
    chance = random.Random(7)
    for _ in range(200):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(4, len(data))] = chance.randrange(256)
        damaged = bytes(data[: chance.randint(4, len(data))])
        for password in (None, PASSWORD):
            try:
                store = jks.read(damaged, password)
                for entry in store.keys:
                    jks.reveal(entry.hidden, PASSWORD)
            except jks.BadStore:
                pass


def test_a_pem_is_read_without_the_package_cryptography(tmp_path):
    made = world()
    path = written(tmp_path, "server.pem", made.server.key + made.server.chain[0])
    code = (
        "import sys; from pyclient.security import server_context;"
        f"server_context({{'ssl.keystore.location': {path!r}}});"
        "assert not [name for name in sys.modules if name.startswith('cryptography')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_stores_created_by_keytool_are_read(tmp_path, kind):
    keytool = shutil.which("keytool")
    assert keytool, "a JDK has it"
    keys, trust, certificate = (str(tmp_path / name) for name in ("keys", "trust", "certificate"))
    secret = ["-storepass", "of the store", "-storetype", kind]
    subprocess.run(
        [keytool, "-genkeypair", "-alias", "me", "-keyalg", "RSA", "-dname", "CN=localhost", "-keystore", keys, *secret]
        + (["-keypass", KEY_PASSWORD] if kind == "JKS" else []),
        check=True,
    )  # fmt: skip
    subprocess.run(
        [keytool, "-exportcert", "-alias", "me", "-file", certificate, "-keystore", keys, *secret], check=True
    )
    subprocess.run(
        [keytool, "-importcert", "-noprompt", "-alias", "ca", "-file", certificate, "-keystore", trust, *secret],
        check=True,
    )
    store = key_store(
        {
            "ssl.keystore.location": keys,
            "ssl.keystore.password": "of the store",
            "ssl.key.password": KEY_PASSWORD if kind == "JKS" else None,
        }
    )
    trusted = trust_store({"ssl.truststore.location": trust, "ssl.truststore.password": "of the store"})
    assert store is not None
    assert trusted is not None
    assert as_der(store.chain) == as_der(trusted.certificates)
