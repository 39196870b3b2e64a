"""ExpireDelegationToken (40), 1 and 2: changes when a token expires, or removes it at once (KIP-48)."""

from __future__ import annotations

from pybroker.cluster.decisions.token_changes import expire
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.forwarding import forwarded
from pybroker.handlers.common.security.tokens import found
from pyclient.protocol import ExpireDelegationToken, errors

Response = ExpireDelegationToken.Response


async def _expire(request: ExpireDelegationToken.Request, call: Call) -> ExpireDelegationToken.Response:
    try:
        token_id = found(call, request.hmac)
        principal, period_ms, now_ms = call.principal, request.expiry_time_period_ms, call.broker.clock.now_ms()
        expiry = await call.broker.controller.change_tokens(
            lambda image: expire(image, token_id, principal, period_ms, now_ms)
        )
    except errors.KafkaError as error:
        return Response(error_code=error.code)
    return Response(expiry_timestamp_ms=expiry)


handle = forwarded(ExpireDelegationToken, _expire)
"""Answers with the new time of expiry, or an error. When it answers, this broker no longer accepts a removed token."""
