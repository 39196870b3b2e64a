"""The settings with which clients log in to a broker with authentication (``harness.servers.guarded``)."""

from __future__ import annotations

from typing import Any

from harness.servers.guarded import PASSWORD


def by_name(user: str) -> dict[str, Any]:
    """Returns the settings of a client that logs in as this user."""
    named = {"sasl_mechanism": "PLAIN", "sasl_username": user, "sasl_password": PASSWORD}
    return {"security_protocol": "SASL_PLAINTEXT", **named}
