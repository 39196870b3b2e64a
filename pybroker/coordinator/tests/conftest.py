from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.coordinator.tests.harness import Node, nodes


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A broker without topics."""
    yield from nodes(tmp_path)
