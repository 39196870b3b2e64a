"""Which followers a leader proposes for the in-sync replicas."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pybroker.cluster.decisions.isr_changes import IsrChange, IsrOutcome
from pybroker.cluster.metadata.image import BrokerRegistration
from pybroker.replication.tests.harness import NOW
from pybroker.replication.tests.pair import EPOCH, FOLLOWER, Pair
from pyclient.protocol import errors


def test_a_proposal_is_repeated_if_its_answer_cannot_be_applied(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    async def answers_nothing(broker_epoch: int, changes: Sequence[IsrChange]) -> list[IsrOutcome]:
        pair.proposals += changes
        return []

    changes = pair.leader.replicas.leading.changes
    monkeypatch.setattr(changes, "_send", answers_nothing)
    pair.create(isr=(1,))
    pair.round()
    pair.round()
    pair.leader.until(lambda: len(pair.proposals) > 1)
    changes.close()
    pair.leader.until(lambda: changes._task is None)


def test_a_follower_that_has_caught_up_is_proposed_with_its_broker_epoch(pair: Pair) -> None:
    pair.create(isr=(1,))
    pair.leader.append(b"a")
    pair.round()
    assert pair.proposals == []
    pair.round()
    pair.leader.turn()
    pair.leader.turn()
    [change] = pair.proposals
    assert change.isr == ((1, EPOCH), (2, EPOCH))


def test_a_proposal_names_the_registration_that_had_caught_up_not_one_that_has_fetched_since(pair: Pair) -> None:
    """The defect: a machine returned with an empty log before the proposal was sent, and joined the in-sync set."""
    leader = pair.create(isr=(1,))
    pair.leader.append(b"a")
    pair.round()
    pair.round()
    assert leader.on_follower_fetch(FOLLOWER, 0, 0, NOW, EPOCH + 1) is None
    pair.leader.turn()
    pair.leader.turn()
    [change] = pair.proposals
    assert change.isr == ((1, EPOCH), (2, EPOCH))


def test_a_broker_registered_again_is_not_proposed_for_what_was_fetched_before(pair: Pair) -> None:
    leader = pair.create(isr=(1, 2))
    pair.leader.append(b"a")
    pair.round()
    pair.round()
    pair.leader.replicas.leading.on_brokers({FOLLOWER: BrokerRegistration(FOLLOWER, EPOCH + 1, ())})
    leader.isr.confirm((1,))
    pair.leader.replicas.leading.changes.consider(leader)
    assert leader.isr.pending is None


def test_a_registration_that_the_cluster_does_not_know_is_not_proposed(pair: Pair) -> None:
    pair.create(isr=(1,))
    pair.source._broker_epoch = lambda: EPOCH + 1
    pair.round()
    pair.round()
    pair.leader.turn()
    assert pair.proposals == []


def test_case_63_another_connection_may_not_fetch_as_that_replica(pair: Pair) -> None:
    pair.create()
    pair.leader.connection.broker_id = 3  # type: ignore[attr-defined]
    _, request = pair.ask()
    response = pair.answer(request)
    assert response.responses[0].partitions[0].error_code == errors.TopicAuthorizationFailed.code
