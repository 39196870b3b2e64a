"""SCRAM against Kafka's own classes, in one JVM (ScramWitness.java): the messages and the stored credentials."""

from __future__ import annotations

import base64
import random
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from harness import peers
from pybroker.security.sasl.scram_credentials import from_text, to_text
from pyclient.protocol import scram
from pyclient.protocol.scram import Mechanism

WITNESS = Path(__file__).parent / "ScramWitness.java"
CASES = 100_000
LETTERS = "abcXYZ019,=2C3D -_/+\\\"';éü漢\U0001f600"
NONCE = "abcdefghijklmnopqrstuvwxyz0123456789!#%$&()*+-./:;<=>?@[]^_`{|}~"


class Case(NamedTuple):
    mechanism: Mechanism
    user: str
    password: str
    nonce: str
    server_nonce: str
    salt: bytes
    iterations: int

    def row(self) -> str:
        texts = (_encoded(each.encode()) for each in (self.user, self.password))
        fields = (self.mechanism.name, *texts, self.nonce, self.server_nonce, _encoded(self.salt), str(self.iterations))
        return "\t".join(fields) + "\n"


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def cases(count: int) -> list[Case]:
    chance = random.Random(2011)

    def text(letters: str) -> str:
        return "".join(chance.choices(letters, k=chance.randrange(1, 20)))

    return [
        Case(
            chance.choice([scram.SHA_256, scram.SHA_512]),
            text(LETTERS),
            text(LETTERS),
            text(NONCE),
            text(NONCE),
            chance.randbytes(chance.randrange(1, 40)),
            chance.randrange(1, 4),
        )
        for _ in range(count)
    ]


def said(case: Case) -> list[str]:
    """Returns the lines that Kafka's classes should print for a case, computed by our code."""
    mechanism = case.mechanism
    salted = scram.salted_password(mechanism, case.password, case.salt, case.iterations)
    known = scram.credential(mechanism, salted, case.salt, case.iterations)
    first = scram.client_first(case.user, case.nonce)
    challenge = scram.server_first(case.nonce + case.server_nonce, case.salt, case.iterations)
    final = scram.client_final(first, challenge, mechanism, salted)
    heard, last = scram.read_client_first(first.message), scram.read_client_final(final.message)
    message = scram.auth_message(heard, challenge, last)
    assert scram.is_proved(mechanism, known.stored_key, message, final.proof)
    assert heard.user == case.user
    assert from_text(to_text(known)) == known
    signature = scram.server_signature(mechanism, known.server_key, message)
    return [to_text(known), *(_encoded(each) for each in (first.message, challenge.message, final.message, signature))]


@pytest.mark.nightly
def test_scram_messages_and_stored_passwords_equal_kafkas() -> None:
    given = cases(CASES)
    told = subprocess.run(
        [*peers.jvm("512m"), str(WITNESS)],
        input="".join(case.row() for case in given),
        capture_output=True,
        text=True,
        check=True,
        timeout=250,
    ).stdout.splitlines()
    assert len(told) == len(given)
    differences = [case for case, row in zip(given, told, strict=True) if row.split("\t") != said(case)]
    assert not differences, f"{len(differences)} differ, first: {differences[0]}"
