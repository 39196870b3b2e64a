"""Limits of connections as the configuration and the process have them."""

from __future__ import annotations

import resource

import pytest

from pybroker.config import BrokerConfig
from pybroker.net import limits


@pytest.mark.parametrize("descriptors", [256, 1024, 4096, 65_536, 1 << 20])
def test_connections_leave_descriptors_to_the_logs(monkeypatch: pytest.MonkeyPatch, descriptors: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (descriptors, descriptors))
    allowed = limits.from_config(BrokerConfig()).max_connections
    assert descriptors // 4 < allowed <= descriptors // 2 - limits.LEAST_RESERVED


def test_a_smaller_number_of_connections_is_taken_as_it_is() -> None:
    assert limits.from_config(BrokerConfig({"max.connections": "17"})).max_connections == 17
