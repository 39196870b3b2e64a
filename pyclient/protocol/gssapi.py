"""GSSAPI (RFC 4752): both sides exchange Kerberos tokens until they have authenticated each other. Then they agree on a
security layer; Kafka has only the one that neither signs nor encrypts. No I/O.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Final, Protocol

from pyclient.protocol.sasl import Away, SaslError

MOST_BYTES: Final = 64 * 1024
"""The most bytes of a message. A ticket may be that large if a user is in many groups."""
MOST_STEPS: Final = 8
"""The most messages of an exchange; Kerberos has three."""
LAYER_BYTES: Final = 4
"""One byte of flags for layers, and three for the longest message with a layer."""
NO_LAYER: Final = 1
NONE_ONLY: Final = bytes([NO_LAYER, 0, 0, 0])


class Context(Protocol):
    """One side's context (``pyclient.security.kerberos``). Its calls may block."""

    @property
    def is_complete(self) -> bool: ...

    def step(self, token: bytes) -> bytes: ...

    def wrap(self, message: bytes) -> bytes: ...

    def unwrap(self, message: bytes) -> bytes: ...


def client(context: Context) -> Generator[bytes | Away, bytes, None]:
    """Runs the client's side of an exchange. Raises SaslError."""
    answer = b""
    for _ in range(MOST_STEPS):
        if context.is_complete:
            break
        token = yield Away(partial(context.step, answer))
        answer = yield token
    else:
        raise SaslError(f"the broker wants more than {MOST_STEPS} messages")
    yield (yield Away(partial(_chosen, context, answer)))


def _chosen(context: Context, offer: bytes) -> bytes:
    """Returns the answer to the broker's layers. It names no user: the broker uses the authenticated one."""
    if not has_none(context.unwrap(offer)):
        raise SaslError("the broker wants to sign or encrypt each message, which Kafka does not support")
    return context.wrap(NONE_ONLY)


def has_none(layers: bytes) -> bool:
    """Returns whether the offered or chosen layers include none."""
    return len(layers) >= LAYER_BYTES and bool(layers[0] & NO_LAYER)
