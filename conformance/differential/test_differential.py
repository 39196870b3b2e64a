"""Our broker against a real Kafka 4.4.0: the same sequences, the same answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.differential import accepted
from conformance.differential.campaign import SETTINGS, Campaign, Draw, Side, Tally
from conformance.differential.generate import sequence
from conformance.differential.guarded import GuardedSide, guarded_broker, guarded_sequence
from harness.servers.brokers import KINDS as BROKERS
from harness.servers.brokers import Broker, RealKafka
from harness.servers.guarded import GUARDED

pytestmark = pytest.mark.nightly
SHORT, LONG = 60, 2400


@pytest.fixture(scope="module")
def sides(broker_kind: type[Broker], data_root: Path) -> Iterator[tuple[Side, Side]]:
    """Yields the broker under test and the reference."""
    with (
        RealKafka(data_root / "reference", **SETTINGS) as reference,
        BROKERS[broker_kind.name](data_root / "tested", **SETTINGS) as tested,
    ):
        yield Side(tested), Side(reference)


@pytest.fixture(scope="module")
def guarded_sides(broker_kind: type[Broker], data_root: Path) -> Iterator[tuple[Side, Side]]:
    """Yields the same with an authorizer on both sides."""
    with (
        guarded_broker(GUARDED["kafka"], data_root / "acls-reference") as reference,
        guarded_broker(GUARDED[broker_kind.name], data_root / "acls-tested") as tested,
    ):
        yield GuardedSide(tested), GuardedSide(reference)


def run(sides: tuple[Side, Side], sequences: int, draw: Draw = sequence, workers: int = 3) -> Tally:
    campaign = Campaign(*sides, accepted.load(), draw)
    tally = campaign.run(1, range(sequences), workers=workers, most=3)
    assert not tally.findings, "\n".join(map(str, tally.findings))
    return tally


def test_sequences_of_requests_get_the_answers_that_kafka_gives(sides: tuple[Side, Side]) -> None:
    assert run(sides, SHORT).sequences == SHORT


def test_users_with_acls_get_the_answers_that_kafka_gives(guarded_sides: tuple[Side, Side]) -> None:
    assert run(guarded_sides, SHORT, guarded_sequence, workers=1).sequences == SHORT


@pytest.mark.campaign
@pytest.mark.timeout(3600)
def test_thousands_of_sequences_get_the_answers_that_kafka_gives(sides: tuple[Side, Side]) -> None:
    tally = run(sides, LONG)
    print(tally)
    assert tally.sequences == LONG
