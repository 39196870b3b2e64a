from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.coordinator.tests.harness import Node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A broker without topics."""
    node = Node(tmp_path)
    yield node
    node.close()
