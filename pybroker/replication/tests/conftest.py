"""A broker for each test that asks for one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pybroker.replication.tests.harness import Node, nodes
from pybroker.replication.tests.pair import Pair


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    """Yields a function that makes brokers with log dirs in one temporary folder; closes the brokers at the end."""
    with nodes(Node, tmp_path) as make:
        yield make


@pytest.fixture
def node(make_node: Callable[..., Node]) -> Node:
    """A broker without topics."""
    return make_node()


@pytest.fixture
def pair(make_node: Callable[..., Node], tmp_path: Path) -> Pair:
    """A leader and a follower, with a log dir each."""
    return Pair(make_node, tmp_path)
