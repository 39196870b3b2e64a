"""The suite of several brokers measures what it says, on brokers of ours and on a small scale."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from conformance.bench.cases import QUICK
from conformance.bench.cluster import crowd, failover, many_partitions, replicate
from conformance.bench.cluster.trio import KafkaTrio, OurTrio
from conformance.bench.cluster.width import leaders

SMALL = replace(QUICK, replicated_records=2_000, kills=1, clients=40, partitions=30)


@pytest.mark.campaign
def test_every_case_has_its_figures(tmp_path: Path) -> None:
    with OurTrio(tmp_path / "data") as trio:
        figures = replicate(trio, SMALL) | crowd(trio, SMALL) | failover(trio, SMALL) | many_partitions(trio, SMALL)
    assert len(figures) == 16
    assert all(value > 0 for name, value in figures.items() if name != "crowd_kib")


@pytest.mark.campaign
def test_leaders_and_sizes_of_isrs_are_found_in_metadata(tmp_path: Path) -> None:
    with OurTrio(tmp_path / "data") as trio:
        topic = trio.new_topic(4)
        found = trio.partitions(topic)
        expected = [(found[number].leader, len(found[number].isr)) for number in range(4)]
        assert sorted(leaders(trio.ports[1], topic)) == sorted(expected)


def test_three_kafkas_have_a_log_dir_each(tmp_path: Path) -> None:
    trio = KafkaTrio(tmp_path / "data")
    assert len({trio.log_dir(broker) for broker in trio.ids}) == 3
