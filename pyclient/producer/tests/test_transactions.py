"""The state of a producer's transaction, with a coordinator that answers as told."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from pyclient.errors import RequestTimedOut
from pyclient.producer.lane import Identity
from pyclient.producer.transactions import State, Transactions
from pyclient.protocol.errors import InvalidTxnState


class Scripted(Transactions):
    """Answers InitProducerId with the next epoch; a commit is never answered. ``committed``: but happens."""

    committed = False

    async def _retrying(self, attempt):
        return await attempt()

    async def _init(self, known):
        self.current = Identity(7, known.epoch + 1)

    async def _ask_to_end(self, commit):
        if commit:
            raise RequestTimedOut
        if self.committed:
            raise InvalidTxnState


async def nothing():
    """There is nothing to send, or to wait for."""


@pytest.mark.parametrize("is_version_1", [True, False])
def test_abort_after_a_commit_of_unknown_outcome_raises_the_epoch_of_version_1(is_version_1):
    """Else the delayed EndTxn would commit a part of the next transaction (case 38)."""

    async def work():
        transactions = Scripted(SimpleNamespace(), SimpleNamespace(transactional_id="t"))
        await transactions.init()
        transactions.is_version_1 = is_version_1
        transactions.begin()
        transactions._touched = True
        with pytest.raises(RequestTimedOut):
            await transactions.commit(nothing)
        assert transactions.can_abort
        await transactions.abort(nothing)
        assert transactions.state is State.READY
        return transactions.current.epoch

    assert asyncio.run(work()) == (1 if is_version_1 else 0)


@pytest.mark.parametrize("is_version_1", [True, False])
def test_abort_after_a_commit_that_has_happened_makes_the_producer_ready_under_a_new_epoch(is_version_1):
    async def work():
        transactions = Scripted(SimpleNamespace(), SimpleNamespace(transactional_id="t"))
        await transactions.init()
        transactions.is_version_1, transactions.committed = is_version_1, True
        transactions.begin()
        transactions._touched = True
        with pytest.raises(RequestTimedOut):
            await transactions.commit(nothing)
        transactions.is_left = True
        await transactions.abort(nothing)
        assert transactions.state is State.READY
        assert not transactions.is_left
        return transactions.current.epoch

    assert asyncio.run(work()) == 1


def test_abort_of_a_transaction_that_the_coordinator_does_not_know_is_an_error():
    async def work():
        transactions = Scripted(SimpleNamespace(), SimpleNamespace(transactional_id="t"))
        await transactions.init()
        transactions.committed = True
        transactions.begin()
        transactions._touched = True
        with pytest.raises(InvalidTxnState):
            await transactions.abort(nothing)

    asyncio.run(work())
