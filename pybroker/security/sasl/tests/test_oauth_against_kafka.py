"""The times of tokens against jose4j, the library of Kafka's brokers, in one JVM (TokenWitness.java)."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from joserfc.errors import JoseError

from harness import peers
from pybroker.security.sasl.oauth import Claims

WITNESS = Path(__file__).parent / "TokenWitness.java"
CASES = 100_000
NOW_S = 1_000_000
ODD: tuple[object, ...] = (None, "tomorrow", True, 0, -1, [])


class Case(NamedTuple):
    now_s: int
    skew_s: int
    claims: dict[str, Any]

    def row(self) -> str:
        return f"{self.now_s}\t{self.skew_s}\t{json.dumps(self.claims)}\n"


def cases(count: int) -> list[Case]:
    chance = random.Random(7519)

    def time() -> object:
        if chance.random() < 0.05:
            return chance.choice(ODD)
        return NOW_S + chance.choice([chance.randint(-4, 4), chance.randint(-8, 8) / 2])

    def claims() -> dict[str, Any]:
        return {name: time() for name in ("exp", "iat", "nbf") if chance.random() < 0.95}

    return [Case(NOW_S, chance.randint(0, 3), claims()) for _ in range(count)]


def is_accepted(case: Case) -> bool:
    essential: dict[str, Any] = {name: {"essential": True} for name in ("exp", "iat")}
    try:
        Claims(now=case.now_s, leeway=case.skew_s, **essential).validate(case.claims)
    except JoseError:
        return False
    return True


@pytest.mark.nightly
def test_the_times_of_a_token_are_judged_as_kafka_judges_them() -> None:
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
    assert 0.1 < told.count("true") / len(told) < 0.9
    differences = [case for case, row in zip(given, told, strict=True) if (row == "true") != is_accepted(case)]
    assert not differences, f"{len(differences)} differ, first: {differences[0]}"
