"""The kinds of coordinators, and the request that finds one."""

from __future__ import annotations

from enum import IntEnum

from pyclient.protocol import FindCoordinator


class Coordinator(IntEnum):
    """The kind of a coordinator: FindCoordinator's ``key_type``."""

    GROUP = 0
    TRANSACTION = 1


GROUP, TRANSACTION = Coordinator.GROUP, Coordinator.TRANSACTION


def request_of(version: int, key: str, kind: Coordinator) -> FindCoordinator.Request:
    """Returns the request for the coordinator of one key."""
    if version >= 4:
        return FindCoordinator.Request(coordinator_keys=[key], key_type=kind)
    return FindCoordinator.Request(key=key, key_type=kind)
