"""Limits of connections, from the configuration and from the limits of the process."""

from __future__ import annotations

import inspect
import re
import resource

import pytest

from pybroker.config import BrokerConfig
from pybroker.config.keys.inert_keys import INERT_KEYS
from pybroker.net import limits


@pytest.mark.parametrize("descriptors", [256, 1024, 4096, 65_536, 1 << 20])
def test_the_default_limit_of_connections_leaves_file_descriptors_to_the_logs(
    monkeypatch: pytest.MonkeyPatch, descriptors: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (descriptors, descriptors))
    allowed = limits.from_config(BrokerConfig()).max_connections
    assert descriptors // 4 < allowed <= descriptors // 2 - limits.LEAST_RESERVED


@pytest.mark.parametrize("descriptors", [256, 1024, 20_000, 1 << 20])
def test_logs_may_use_the_file_descriptors_that_connections_leave_unused(
    monkeypatch: pytest.MonkeyPatch, descriptors: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (descriptors, descriptors))
    most = limits.descriptors_for_connections()
    assert descriptors // 4 < limits.spare_descriptors(0) < most
    for connections in range(0, most, max(1, most // 50)):
        assert limits.spare_descriptors(connections) <= most - connections
    assert limits.spare_descriptors(most) == limits.spare_descriptors(most + 1) == 0


def test_no_file_descriptors_are_spare_if_the_process_has_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert limits.spare_descriptors(5) == 0


def test_a_small_max_connections_is_used_unchanged() -> None:
    assert limits.from_config(BrokerConfig({"max.connections": "17"})).max_connections == 17


def test_no_key_that_the_limits_read_is_listed_as_without_effect() -> None:
    inert = {key.name for key in INERT_KEYS}
    assert inert.isdisjoint(re.findall(r'"([a-z.]+)"', inspect.getsource(limits)))
