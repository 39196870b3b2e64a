"""Producer ids while the store cannot be reached, and after it has forgotten some of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pybroker.cluster.metadata import znodes
from pybroker.cluster.producer_ids import BLOCK_SIZE, MAX_KNOWN_ID, MAX_PRODUCER_ID, ProducerIds
from pybroker.cluster.tests.harness import Members, run
from pybroker.store.interface import ConnectionLoss, CoordinationError, SessionExpired
from pyclient.protocol import errors


class Unreachable:
    def __init__(self, error: CoordinationError) -> None:
        self._error = error

    async def get_many(self, paths: Any) -> Any:
        raise self._error


@pytest.mark.parametrize("error", [ConnectionLoss("cut"), SessionExpired("over")])
def test_a_producer_gets_a_retriable_error_without_a_block_of_ids(error: CoordinationError) -> None:
    """Found by the simulator: the client's connection was closed as if the broker had failed."""
    store: Any = Unreachable(error)
    with pytest.raises(errors.CoordinatorNotAvailable):
        asyncio.run(ProducerIds(store, 1).next())


def test_a_producer_id_found_in_a_log_is_not_assigned_again_after_the_store_lost_it(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        store = await members.server.connect()
        ids, others = ProducerIds(store, 1), ProducerIds(store, 2)
        await ids.skip([7, 4_321])
        await others.skip([12])
        given = [await ids.next(), await others.next()]
        assert given == [4_322, 4_322 + BLOCK_SIZE]
        await others.skip([9_000_000])
        assert await others.next() == 9_000_001

    run(tmp_path / "db", scenario)


def test_an_invented_producer_id_does_not_use_up_the_others(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        ids = ProducerIds(await members.server.connect(), 1)
        await ids.skip([3, MAX_PRODUCER_ID])
        assert await ids.next() == 4
        await ids.skip([MAX_KNOWN_ID])
        assert await ids.next() == MAX_KNOWN_ID + 1

    run(tmp_path / "db", scenario)


def test_a_broker_that_registers_in_another_store_assigns_no_producer_id_twice(tmp_path: Path) -> None:
    """The store is restored from a backup while brokers run, and their sessions expire."""

    async def scenario(members: Members) -> None:
        member = await members.start(1)
        first = await member.node.producer_ids.next()
        member.node.known_producers = lambda: [first, 5_000]
        await (await members.server.connect()).delete(znodes.PRODUCER_ID_BLOCK)
        epoch = member.node.broker_epoch
        await members.server.expire(member.store.session.id)
        await members.until(lambda: member.node.broker_epoch != epoch)
        assert await member.node.producer_ids.next() == 5_001

    run(tmp_path / "db", scenario)


def test_a_malformed_block_of_producer_ids_does_not_prevent_a_start(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await (await members.server.connect()).create(znodes.PRODUCER_ID_BLOCK, b"{garbled")
        await members.start(1)

    run(tmp_path / "db", scenario)
