"""InitProducerId without transactions."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker.handlers import init_producer_id
from pybroker.handlers.tests.harness import Node
from pyclient.protocol import InitProducerId, errors


def ask(node: Node, version: int = 5, **fields: Any) -> tuple[int, int, int]:
    """Sends InitProducerId; returns error code, producer id and epoch."""
    fields = {"transactional_id": None} | fields
    answer = node.ask(init_producer_id, InitProducerId.Request(**fields), version)
    return answer.error_code, answer.producer_id, answer.producer_epoch


@pytest.mark.parametrize("version", range(6))
def test_every_producer_gets_an_id_of_its_own(node: Node, version: int) -> None:
    assert [ask(node, version) for _ in range(3)] == [(0, 1000 + n, 0) for n in range(3)]


def test_a_producer_that_already_has_an_id_gets_a_new_one(node: Node) -> None:
    assert ask(node, producer_id=55, producer_epoch=3) == (0, 1000, 0)


@pytest.mark.parametrize("fields", [{"producer_id": 5}, {"producer_epoch": 5}])
def test_contradictory_producer_ids_and_epochs_are_refused(node: Node, fields: dict[str, Any]) -> None:
    assert ask(node, **fields) == (errors.InvalidRequest.code, -1, -1)
