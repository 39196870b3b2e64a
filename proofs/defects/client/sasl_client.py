"""Defects of the client's authentication, and of its check of the broker."""

from __future__ import annotations

from types import SimpleNamespace

from proofs.defects import Patch, defect
from pyclient.core.nodes.node import Node
from pyclient.core.nodes.transport import Transport
from pyclient.core.security.sasl import Sasl
from pyclient.protocol import sasl

CORE = "pyclient/core/security/tests/test_sasl.py"


@defect(f"{CORE}::test_a_broker_that_cannot_prove_itself_is_refused")
def a_client_believes_every_broker_that_takes_its_proof() -> list[Patch]:
    """A broker that does not know the password can pose as one that does (RFC 5802, section 5)."""
    return [(sasl, "hmac", SimpleNamespace(compare_digest=lambda mine, theirs: True))]


@defect(f"{CORE}::test_a_connection_reauthenticates_before_its_session_expires_and_requests_wait")
def requests_go_out_while_a_connection_authenticates_again() -> list[Patch]:
    """The broker closes the connection, because KIP-368 allows no other request during a handshake."""

    def begin(self: Node, transport: Transport, given: Sasl) -> None:
        if transport is self._transport:
            self._connecting = self._loop.create_task(self._renew(transport, given))

    return [(Node, "_begin_renewal", begin)]
