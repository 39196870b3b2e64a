"""The settings by which a library reaches brokers: their addresses, and a login if the brokers require one.

All clients log in as one user (``harness.protocol.entrance``) to a campaign's secured brokers. The module of logins
imports all libraries, so it is imported only then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.protocol import entrance

if TYPE_CHECKING:
    from conformance.drivers.logins import Login


def login(bootstrap: str) -> Login | None:
    """Returns the common login if the brokers authenticate clients."""
    found = entrance.current()
    if found is None:
        return None
    from conformance.drivers.logins import Login

    return Login(bootstrap, found.user, found.password, entrance.MECHANISM, found.ca)


def librdkafka(bootstrap: str) -> dict[str, Any]:
    """Returns librdkafka's settings."""
    found = login(bootstrap)
    return {"bootstrap.servers": bootstrap} if found is None else found.librdkafka()


def java(bootstrap: str) -> dict[str, str]:
    """Returns the settings of Java's clients."""
    found = login(bootstrap)
    return {"bootstrap.servers": bootstrap} if found is None else found.java()


def aiokafka(bootstrap: str) -> dict[str, Any]:
    """Returns aiokafka's settings."""
    found = login(bootstrap)
    return {"bootstrap_servers": bootstrap} if found is None else found.aiokafka()


def pyclient(bootstrap: str) -> dict[str, Any]:
    """Returns our client's settings."""
    found = login(bootstrap)
    return {"bootstrap_servers": bootstrap} if found is None else found.pyclient()
