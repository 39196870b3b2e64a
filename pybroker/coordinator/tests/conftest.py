from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.coordinator.tests.harness import HASTY, Node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A broker without topics."""
    node = Node(tmp_path)
    yield node
    node.close()


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[Node]:
    """A broker that waits only shortly for replicas."""
    node = Node(tmp_path, **HASTY)
    yield node
    node.close()
