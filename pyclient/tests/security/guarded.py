"""How clients come to a broker that asks for names (``harness.servers.guarded``)."""

from __future__ import annotations

from typing import Any

from harness.servers.guarded import PASSWORD


def by_name(user: str) -> dict[str, Any]:
    """The settings of a client that comes as this user."""
    named = {"sasl_mechanism": "PLAIN", "sasl_username": user, "sasl_password": PASSWORD}
    return {"security_protocol": "SASL_PLAINTEXT", **named}
