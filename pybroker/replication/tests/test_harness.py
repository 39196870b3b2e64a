"""The broker of these tests leaves nothing that affects another test."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pybroker.replication.tests.harness import Node


def test_closing_a_broker_ends_all_its_work(tmp_path: Path) -> None:
    node, tidied_up = Node(tmp_path), []

    async def wait() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            tidied_up.append(True)

    waiting = node.loop.create_task(wait())
    node.turn()
    not_begun = node.loop.create_task(wait())
    node.close()
    assert waiting.done()
    assert not_begun.done()
    assert tidied_up == [True]
