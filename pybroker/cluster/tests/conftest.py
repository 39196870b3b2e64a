"""Scenarios on one store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pybroker.cluster.tests.one_store import Cluster, Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs scenarios on a store that is fresh for each test. A second scenario of the test has the same store."""

    def go(scenario: Callable[[Cluster], Awaitable[None]]) -> None:
        async def main() -> None:
            async with asyncio.timeout(30), Cluster(tmp_path / "db") as cluster:
                await scenario(cluster)

        asyncio.run(main())

    return go
