"""The client's messages in GSSAPI (RFC 4752), with a fake Kerberos context."""

from __future__ import annotations

import pytest

from pyclient.protocol import gssapi
from pyclient.protocol.sasl import Away, SaslError


class Context:
    def __init__(self, tokens):
        self._tokens = list(tokens)

    @property
    def is_complete(self):
        return not self._tokens

    def step(self, token):
        expected, answer = self._tokens.pop(0)
        assert token == expected
        return answer

    def wrap(self, message):
        return b"signed " + message

    def unwrap(self, message):
        return message.removeprefix(b"signed ")


def said(context, *answers):
    """Returns the messages that the client sends to a broker with these answers."""
    exchange, heard, found = gssapi.client(context), list(answers), []
    step = next(exchange)
    try:
        while True:
            if isinstance(step, Away):
                step = exchange.send(step.run())
            else:
                found.append(step)
                step = exchange.send(heard.pop(0))
    except StopIteration:
        return found


def test_gssapi_exchanges_tokens_and_chooses_no_security_layer():
    context = Context([(b"", b"ticket"), (b"proof", b"")])
    assert said(context, b"proof", b"signed \x07\x01\0\0", b"") == [b"ticket", b"", b"signed \x01\0\0\0"]
    context = Context([(b"", b"ticket")])
    assert said(context, b"signed \x01\0\0\0", b"") == [b"ticket", b"signed \x01\0\0\0"]


@pytest.mark.parametrize("offer", [b"signed \x06\0\0\0", b"signed \x01", b""])
def test_a_broker_that_demands_signed_messages_is_refused(offer):
    with pytest.raises(SaslError, match="sign or encrypt each message"):
        said(Context([(b"", b"ticket")]), offer)


def test_a_broker_that_never_ends_the_exchange_is_refused():
    endless = [(b"", b"ticket")] + [(b"more", b"more")] * 20
    with pytest.raises(SaslError, match="more than 8 messages"):
        said(Context(endless), *[b"more"] * 20)
