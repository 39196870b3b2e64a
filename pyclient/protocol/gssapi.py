"""GSSAPI (RFC 4752): tokens of Kerberos go to and fro until both sides know each other. Then they agree on a layer of
their messages; Kafka has only the one that neither signs nor encrypts. No I/O.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Final, Protocol

from pyclient.protocol.sasl import Away, SaslError

MOST_BYTES: Final = 64 * 1024
"""Of a message: a ticket may have that, where a user is in many groups."""
MOST_STEPS: Final = 8
"""Of an exchange; Kerberos has three."""
LAYER_BYTES: Final = 4
"""A byte of layers, and in three more the longest message of one."""
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
    """What a client says. Raises SaslError."""
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
    """The answer to the broker's layers, without a name: the broker takes the one that is proved."""
    if not has_none(context.unwrap(offer)):
        raise SaslError("the broker wants to sign or encrypt each message, as Kafka does not")
    return context.wrap(NONE_ONLY)


def has_none(layers: bytes) -> bool:
    """Whether what is offered, or chosen, is to have no layer."""
    return len(layers) >= LAYER_BYTES and bool(layers[0] & NO_LAYER)
