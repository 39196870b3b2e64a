"""Our broker against a real Kafka 4.4.0: the same sequences, the same answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.differential import accepted
from conformance.differential.campaign import SETTINGS, Campaign, Side, Tally
from harness.servers.brokers import KINDS as BROKERS
from harness.servers.brokers import Broker, RealKafka

pytestmark = pytest.mark.nightly
SHORT, LONG = 60, 2400


@pytest.fixture(scope="module")
def sides(broker_kind: type[Broker], data_root: Path) -> Iterator[tuple[Side, Side]]:
    """The broker under test and the reference."""
    with (
        RealKafka(data_root / "reference", **SETTINGS) as reference,
        BROKERS[broker_kind.name](data_root / "tested", **SETTINGS) as tested,
    ):
        yield Side(tested), Side(reference)


def run(sides: tuple[Side, Side], sequences: int) -> Tally:
    campaign = Campaign(*sides, accepted.load())
    tally = campaign.run(1, range(sequences), most=3)
    assert not tally.findings, "\n".join(map(str, tally.findings))
    return tally


def test_sequences_of_requests_get_the_answers_that_kafka_gives(sides: tuple[Side, Side]) -> None:
    assert run(sides, SHORT).sequences == SHORT


@pytest.mark.campaign
@pytest.mark.timeout(3600)
def test_thousands_of_sequences_get_the_answers_that_kafka_gives(sides: tuple[Side, Side]) -> None:
    tally = run(sides, LONG)
    print(tally)
    assert tally.sequences == LONG
