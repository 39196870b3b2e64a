"""Replicas are spread: over places first, then over brokers, leaders evenly."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.cluster.decisions.assignment import assign, check_manual
from pybroker.cluster.decisions.topics import places_of
from pybroker.cluster.metadata.image import BrokerRegistration, MetadataDelta, MetadataImage
from pyclient.protocol import errors


def test_leaders_and_replicas_are_spread_evenly_over_brokers() -> None:
    places = {broker: None for broker in range(5)}
    replicas = assign(places, 50, 3, start=7)
    assert set(Counter(members[0] for members in replicas).values()) == {10}
    assert set(Counter(b for members in replicas for b in members).values()) == {30}


def test_replicas_of_a_partition_are_in_different_racks_while_there_are_enough() -> None:
    places = {0: "a", 1: "a", 2: "b", 3: "b", 4: "c", 5: "c"}
    for members in assign(places, 60, 3, start=1):
        assert len({places[broker] for broker in members}) == 3
    for members in assign(places, 60, 4, start=1):
        assert Counter(places[broker] for broker in members).most_common(1)[0][1] == 2


def test_partitions_with_the_same_leader_have_different_followers() -> None:
    replicas = assign({broker: None for broker in range(6)}, 36, 2, start=0)
    followers = {members[1] for members in replicas if members[0] == 0}
    assert len(followers) == 5


def test_added_partitions_continue_the_assignment_of_the_topic() -> None:
    places = {0: None, 1: None, 2: None}
    assert assign(places, 5, 2, start=4)[3:] == assign(places, 2, 2, start=4, first=3)


@given(
    st.dictionaries(st.integers(0, 50), st.sampled_from([None, "a", "b", "c"]), min_size=1),
    st.integers(1, 20),
    st.integers(0, 1 << 16),
    st.data(),
)
def test_no_broker_has_two_replicas_of_a_partition(
    places: dict[int, str | None], partitions: int, start: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(places)))
    replicas = assign(places, partitions, factor, start=start)
    assert len(replicas) == partitions
    for members in replicas:
        assert len(members) == len(set(members)) == factor
        assert set(members) <= set(places)


@pytest.mark.parametrize(("factor", "brokers"), [(0, 1), (-2, 1), (2, 1), (1, 0)])
def test_the_replication_factor_is_between_one_and_the_brokers(factor: int, brokers: int) -> None:
    with pytest.raises(errors.InvalidReplicationFactor):
        assign(dict.fromkeys(range(brokers)), 1, factor, start=0)


@pytest.mark.parametrize(
    "replicas", [[()], [(1, 1)], [(9,)], [(1, 2), (1,)], [(1, 2), (1, 2, 3)]]
)
def test_a_manual_assignment_is_checked(replicas: list[tuple[int, ...]]) -> None:
    with pytest.raises(errors.InvalidReplicaAssignment):
        check_manual(replicas, {1: None, 2: None, 3: None}, len(replicas[0]))


def test_a_valid_manual_assignment_is_accepted() -> None:
    check_manual([(1, 2), (2, 1)], {1: None, 2: None}, 2)


def test_brokers_without_a_rack_are_spread_over_machines() -> None:
    brokers = [
        BrokerRegistration(1, 1, (), "cellar", machine="a"),
        BrokerRegistration(2, 1, (), machine="a"),
        BrokerRegistration(3, 1, ()),
    ]
    image = MetadataImage().apply(MetadataDelta(brokers={each.id: each for each in brokers}))
    assert places_of(image) == {1: "cellar", 2: "a", 3: None}
