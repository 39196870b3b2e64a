"""Names of users by certificates and Kerberos against Java's and Kafka's own classes (PrincipalWitness.java)."""

from __future__ import annotations

import base64
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from harness import peers
from pybroker.security.principal_mapping import PrincipalMapping
from pybroker.security.short_names import ShortNames
from pybroker.security.tls.distinguished_names import shown

WITNESS = Path(__file__).parent / "PrincipalWitness.java"
REFUSED, INVALID = "refused", "invalid"
EMPTY = "="
"""A user without a name, which only Kafka allows. Our broker refuses the client, or applies the next rule."""
REALMS = ["REALM.COM", "OTHER.COM", ""]
LETTERS = "abzAZ019 ,=+<>#;\"\\'()-./:?*@_\r\n\t\0éß漢\U0001f600"
TYPES = [
    *("550403", "550406", "550407", "550408", "550409", "55040a", "55040b"),
    *("0992268993f22c640119", "0992268993f22c640101"),
    *("55040c", "2a864886f70d010901", "550405", "55042a", "2b0601040182371402", "813403", "00", "881b"),
]
"""Types of attributes in DER: those that RFC 2253 names, and others."""
STRINGS = {
    **{0x0C: "utf-8", 0x13: "ascii", 0x14: "latin-1", 0x16: "ascii"},
    **{0x1B: "ascii", 0x1E: "utf-16-be", 0x1C: "utf-32-be"},
}
"""The encoding of the text, by tag. Most certificates have the first two."""
PATTERNS = [
    "^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$", "^CN=(.*?)(?:,.*)?$", "^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$", ".*", "CN=(\\w+).*",
    "^CN=(?<who>[^,]+),.*", "(CN)=(d)(u)(k)(e).*", "(.*?)=(.*)", "a|CN.*", "(CN=duke)?.*", "([^,]*),?.*", "cn=.*", "",
    "(", "(a", "[", "*", "\\d+", "(?i)cn=(.*?),.*", "CN=duke\\,.*", "(x)?CN=(.*?),.*", "\\/.*", "CN=(.*)C=US",
]  # fmt: skip
REPLACEMENTS = [
    "$1", "$2", "$1@$2", "$0", "x", "", "$1$12", "$7", "$17", "$01", "\\$1", "\\\\$1", "${who}", "$", "$x", "${",
    "${none}", "a\\/b", "$1.$3", "$12@$1", "\\", "$$", "$4 $3 $2 $1", "a\\b", "$10", "$100",
]  # fmt: skip
DNS = [
    "CN=duke,OU=ServiceUsers,O=Org,C=US", "CN=Duke", "CN=duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "cn=duke,c=us", "",
    "OU=ServiceUsers,CN=duke,C=US", "CN=a\\,b,OU=x", "CN=größe ß İ,OU=ς,C=Σ", "UID=1+CN=duke,C=US", "CN=a/b,C=US",
    "CN=\n,C=US",
]  # fmt: skip
FORMATS = {
    "1": ["$1", "$0", "$1@$0", "x$1", "", "a", "$1$1", "$01"],
    "2": ["$1", "$2", "$1@$0", "$1.$2", "x$1", "", "$1;$2", "a", "$2$1"],
}
"""Formats, by how many parts a principal has. For other numbers, our broker refuses to start, Kafka's each client."""
MATCHES = [".*", "App\\..*", "a.*", "(", "", "^alice$", ".*@REALM.COM", ".*;admin$", "[a-z]+"]
WANTED = ["App\\.(.*)", "a", "", "@.*", "(", "ABC", ".*", "(a)(l)", "x?", "[ai]", "\\."]
INSTEAD = ["$1", "b", "", "$2$1", "$9", "XYZ", "a@b", "$", "\\$", "x$1"]
PRINCIPALS = [
    "alice@REALM.COM", "alice/admin@REALM.COM", "App.web/host@REALM.COM", "App.web@REALM.COM", "ABC_User@OTHER.COM",
    "a/b/c@REALM.COM", "al ice@REALM.COM", "alice@x@REALM.COM", "größe İ@REALM.COM", "alice/@REALM.COM",
    "ALICE/ADMIN@realm.com", "alice@REALM.COM ", "al\rice/ad\nmin@REALM.COM",
]  # fmt: skip
"""Principals with a realm, as always in Kerberos. Kafka uses others unchanged; our broker refuses them."""


class Question(NamedTuple):
    """A question for the witness, and our answer."""

    row: tuple[str, ...]
    ours: str

    def line(self) -> str:
        return "\t".join(self.row)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def told(name: Callable[[], str]) -> str:
    try:
        return f"={encoded(name())}"
    except ValueError:
        return REFUSED


def element(tag: int, content: bytes) -> bytes:
    """Returns an element in DER."""
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(digits)]) + digits + content


def some_text(chance: random.Random) -> str:
    return "".join(chance.choices(LETTERS, k=chance.choice([0, 1, 2, 3, 5, 9, 20, 140])))


def some_attribute(chance: random.Random) -> bytes:
    tag = chance.choice([0x0C, 0x0C, 0x13, 0x13, *STRINGS])
    value = element(tag, some_text(chance).encode(STRINGS[tag], "replace"))
    return element(0x30, element(0x06, bytes.fromhex(chance.choice(TYPES))) + value)


def of_a_subject(chance: random.Random) -> Question:
    parts = [
        element(0x31, b"".join(some_attribute(chance) for _ in range(chance.choice([1, 1, 1, 2, 3]))))
        for _ in range(chance.randrange(5))
    ]
    name = element(0x30, b"".join(parts))
    return Question(("subject", base64.b64encode(name).decode()), told(lambda: shown(name)))


def of_a_mapping(chance: random.Random) -> Question:
    def rule() -> str:
        if chance.random() < 0.2:
            return chance.choice(["DEFAULT", "DEFAULT", "DEFAULT", "DEFAULTS", "default", "", "RULE:a/b", "RULE", "x"])
        letters = chance.choice(["", "", "", "L", "U", "l", "LU", "X"])
        return f"RULE:{chance.choice(PATTERNS)}/{chance.choice(REPLACEMENTS)}/{letters}"

    joint = chance.choice([",", ", ", " , ", ",,", " "]) if chance.random() < 0.2 else ","
    rules = joint.join(rule() for _ in range(chance.choice([1, 1, 2, 3])))
    name = chance.choice(DNS)
    row = "mapping", encoded(rules), encoded(name)
    try:
        mapping = PrincipalMapping(rules)
    except ValueError:
        return Question(row, INVALID)
    return Question(row, told(lambda: mapping.user(name)))


def of_kerberos(chance: random.Random) -> Question:
    def rule() -> str:
        if chance.random() < 0.2:
            return chance.choice(["DEFAULT", "DEFAULT", "DEFAULT", "DEFAULT/L", "default", "", "RULE:[1]", "RULE:"])
        parts = chance.choice(["1", "2"])
        text = f"RULE:[{parts}:{chance.choice(FORMATS[parts])}]"
        if chance.random() < 0.5:
            text += f"({chance.choice(MATCHES)})"
        if chance.random() < 0.5:
            text += f"s/{chance.choice(WANTED)}/{chance.choice(INSTEAD)}/{chance.choice(['', 'g'])}"
        return text + chance.choice(["", "", "", "/L", "/U", "L", "/", "/l", "/g"])

    rules = [rule() for _ in range(chance.choice([1, 1, 2, 3]))]
    realm, principal = chance.choice(REALMS), chance.choice(PRINCIPALS)
    row = "kerberos", ",".join(map(encoded, rules)), encoded(realm), encoded(principal)
    try:
        names = ShortNames(rules, realm)
    except ValueError:
        return Question(row, INVALID)
    return Question(row, told(lambda: names.user(principal)))


@pytest.mark.nightly
@pytest.mark.parametrize("count", [3_000, pytest.param(100_000, marks=pytest.mark.campaign)])
@pytest.mark.parametrize("some", [of_a_subject, of_a_mapping, of_kerberos])
def test_a_client_is_the_same_principal_as_for_kafka(some: Callable[[random.Random], Question], count: int) -> None:
    chance = random.Random(2253)
    asked = [some(chance) for _ in range(count)]
    said = subprocess.run(
        [*peers.jvm("512m"), str(WITNESS)],
        input="\n".join(each.line() for each in asked),
        capture_output=True,
        text=True,
        check=True,
        timeout=500,
    ).stdout.splitlines()
    both = zip(asked, said, strict=True)
    differences = [(each, theirs) for each, theirs in both if theirs not in (each.ours, EMPTY)]
    assert differences == [], f"{len(differences)} of {count}"
    assert sum(theirs.startswith("=") for theirs in said) > count / 20
