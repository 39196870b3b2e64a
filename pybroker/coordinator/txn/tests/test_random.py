"""Random calls of several owners of one id, and reloads. Invariants are checked after each."""

from __future__ import annotations

import random

import pytest

from pybroker.coordinator.shard import Producer
from pybroker.coordinator.txn.state import IDLE, ONGOING, PREPARED
from pybroker.coordinator.txn.tests.driver import A, B, Driver
from pybroker.coordinator.txn.transaction import MAX_EPOCH, NO_ID
from pyclient.protocol.errors import InvalidProducerIdMapping, KafkaError, ProducerFenced


class Run:
    """One history from a seed. Owners that ever got an id and epoch go on using them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.level = self.random.choice((0, 2))
        self.driver = Driver(level=self.level, ids=10_000)
        self.owners = [self.driver.init(timeout_ms=5_000)]
        self.given: set[Producer] = set(self.owners)
        if self.random.random() < 0.3:
            exhausted = self.driver.state._replace(epoch=MAX_EPOCH - 4)
            self.driver.shard.transactions["x"] = exhausted
            self.owners = [Producer(exhausted.producer_id, exhausted.epoch)]
        self.rightful: Producer | None = self.owners[0]
        """The owner that still has the id: no other owner and no timeout has taken it since."""

    def step(self) -> None:
        act = self.random.choice(
            (self.init, self.resume, self.add, self.add, self.end, self.end, self.complete, self.complete, self.wait)
        )
        before = self.driver.state
        owner = self.random.choice(self.owners[-4:])
        try:
            act(owner)
        except (ProducerFenced, InvalidProducerIdMapping):
            assert owner != self.rightful
        except KafkaError:
            pass
        self.check_epochs(before.producer_id, before.epoch)
        self.check_reload()

    def init(self, owner: Producer) -> None:
        self.rightful = None
        self.give(self.driver.init(timeout_ms=5_000), again=False)

    def resume(self, owner: Producer) -> None:
        if self.driver.state.state is ONGOING:
            self.rightful = None
        self.give(self.driver.init(owner, timeout_ms=5_000), again=True)

    def add(self, owner: Producer) -> None:
        self.driver.add(owner, self.random.choice((A, B)), version=self.level)

    def end(self, owner: Producer) -> None:
        following = self.driver.end(owner, self.random.random() < 0.5, version=self.level)
        if following.id != NO_ID:
            self.give(following, again=True)

    def complete(self, owner: Producer) -> None:
        if self.driver.endings:
            self.driver.complete()

    def wait(self, owner: Producer) -> None:
        if self.driver.state.state is ONGOING:
            self.rightful = None
        self.driver.pass_ms(self.random.choice((1, 20_000)))

    def give(self, owner: Producer, *, again: bool) -> None:
        """Checks that only a retry returns an epoch that was returned before."""
        assert again or owner not in self.given
        assert owner.epoch < MAX_EPOCH
        self.given.add(owner)
        self.owners.append(owner)
        self.rightful = owner

    def check_epochs(self, producer_id: int, epoch: int) -> None:
        state = self.driver.state
        assert state.producer_id > producer_id or (state.producer_id == producer_id and state.epoch >= epoch)
        assert bool(state.partitions) <= (state.state not in IDLE)
        assert (state.state is ONGOING) == ("x" in self.driver.shard.ongoing)

    def check_reload(self) -> None:
        """Checks that a coordinator with only the last record has the same state and the same pending effects."""
        again = Driver(self.driver.log[-1:], level=self.level, ids=0)
        state = self.driver.state
        if (state.producer_id, state.epoch) == (again.state.producer_id, again.state.epoch):
            known = state._replace(last_epoch=-1, version=0, previous_producer_id=-1)
            found = again.state._replace(version=0, previous_producer_id=-1)
            assert found == known
        if state.state in PREPARED:
            [ending] = again.endings
            assert ending.partitions == self.driver.endings[-1].partitions


@pytest.mark.parametrize("seed", range(60))
def test_owners_never_share_an_epoch_and_a_reload_agrees(seed: int) -> None:
    run = Run(seed)
    for _ in range(60):
        run.step()
