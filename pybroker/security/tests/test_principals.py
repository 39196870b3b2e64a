"""The principal of a client certificate."""

from __future__ import annotations

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pybroker.security.principal_mapping import PrincipalMapping
from pybroker.security.tls.distinguished_names import escaped, subject

NOW = datetime.datetime(2026, 1, 1)
DN = "CN=duke,OU=ServiceUsers,O=Org,C=US"


def certificate(*parts: list[x509.NameAttribute[str]]) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.RelativeDistinguishedName(each) for each in parts])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, NOW, NOW + datetime.timedelta(1))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def attribute(oid: x509.ObjectIdentifier, value: str) -> x509.NameAttribute[str]:
    return x509.NameAttribute(oid, value)


def test_a_name_has_its_last_part_first_as_java_writes_it() -> None:
    country, unit = attribute(NameOID.COUNTRY_NAME, "US"), attribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "A, B=C")
    both = [attribute(NameOID.COMMON_NAME, "dükè"), attribute(NameOID.USER_ID, " u#1 ")]
    assert subject(certificate([country], [unit], both)) == r"CN=dükè+UID=\ u\#1\ ,OU=A\, B\=C,C=US"


def test_attributes_unknown_to_rfc_2253_are_a_number_and_bytes() -> None:
    mail = attribute(NameOID.EMAIL_ADDRESS, "a@b")
    long = attribute(NameOID.TITLE, "x" * 130)
    name = subject(certificate([attribute(NameOID.COMMON_NAME, "c")], [mail], [long]))
    assert name == f"2.5.4.12=#0c8182{'78' * 130},1.2.840.113549.1.9.1=#1603614062,CN=c"


@pytest.mark.parametrize(
    ("value", "shown"),
    [("", ""), ("  ", r"\ \ "), ("a b", "a b"), (' a"\\', r"\ a\"\\"), ("\0", r"\00"), ("<a>;+", r"\<a\>\;\+")],
)
def test_special_characters_in_a_name_are_escaped(value: str, shown: str) -> None:
    assert escaped(value) == shown


@pytest.mark.parametrize(
    ("rules", "user"),
    [
        ("DEFAULT", DN),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "duke"),
        ("RULE:^CN=(.*?),OU=Other.*$/$1/, DEFAULT", DN),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/L", "duke@serviceusers"),
        ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U , DEFAULT", "DUKE"),
        (r"RULE:^CN=(?<who>\w+).*$/${who}\/\$1$12$7/", "duke/$1duke2$7"),
        ("RULE:CN=duke/partly/,RULE:.*,C=US/whole/", "whole"),
    ],
)
def test_the_first_rule_that_matches_all_of_the_name_counts(rules: str, user: str) -> None:
    assert PrincipalMapping(rules).user(DN) == user


def test_a_name_that_no_rule_matches_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no rule of ssl\.principal\.mapping\.rules matches .* CN=duke"):
        PrincipalMapping("RULE:^CN=nobody$/x/").user(DN)


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        (r"^CN=(\w+),.*$/$1", "CN=größe,O=x"),
        (r"^CN=(\d+),.*$/$1", "CN=٣,O=x"),
        ("(?i)cn=ß.*/x", "CN=ẞ,O=x"),
        ("^CN=.*$/x", "CN=a\rb"),
        ("^CN=.*$/x", "CN=a\u2028b"),
        ("CN=(.*)/${who}", "CN=a"),
        ("CN=(.*)/$", "CN=a"),
        ("CN=.*/$1", "CN=a"),
        ("CN=(.*)/$7$8", "CN=a"),
    ],
)
def test_an_invalid_java_pattern_or_replacement_maps_no_name(rule: str, name: str) -> None:
    with pytest.raises(ValueError, match=r"matches its certificate's name|the replacement"):
        PrincipalMapping(f"RULE:{rule}/").user(name)


def test_empty_rules_and_trailing_line_breaks_are_ignored() -> None:
    assert PrincipalMapping(",, RULE:^CN=[a-z]+$.*/x/ ,DEFAULT,").user("CN=a") == "x"
    assert PrincipalMapping("RULE:CN=a$\\r\\n/x/").user("CN=a\r\n") == "x"


@pytest.mark.parametrize(
    "rules", ["DEFAULTS", "RULE:a", "RULE:a/b", "RULE:a/b/X", "RULE:(/b/", "DEFAULT DEFAULT", "RULE:[a[b]]/b/"]
)
def test_rules_that_cannot_be_read_are_refused(rules: str) -> None:
    with pytest.raises(ValueError, match=r"is neither DEFAULT nor RULE|is not a regular expression"):
        PrincipalMapping(rules)
