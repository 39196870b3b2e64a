"""A broker for each test that asks for one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pybroker.handlers.tests.harness import Node
from pybroker.replication.tests.harness import nodes


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    """Makes brokers, whose log dirs are in one temporary folder, and closes them at the end."""
    with nodes(Node, tmp_path) as make:
        yield make


@pytest.fixture
def node(make_node: Callable[..., Node]) -> Node:
    """A broker without topics."""
    return make_node()
