"""Producer ids, while the store cannot be reached."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pybroker.cluster.producer_ids import ProducerIds
from pybroker.coordination.interface import ConnectionLoss, CoordinationError, SessionExpired
from pyclient.protocol import errors


class Unreachable:
    def __init__(self, error: CoordinationError) -> None:
        self._error = error

    async def get_many(self, paths: Any) -> Any:
        raise self._error


@pytest.mark.parametrize("error", [ConnectionLoss("cut"), SessionExpired("over")])
def test_a_producer_is_told_to_come_again_while_no_block_of_ids_can_be_had(error: CoordinationError) -> None:
    """Found by the simulator: the client's connection was closed as if the broker had failed."""
    store: Any = Unreachable(error)
    with pytest.raises(errors.CoordinatorNotAvailable):
        asyncio.run(ProducerIds(store, 1).next())
