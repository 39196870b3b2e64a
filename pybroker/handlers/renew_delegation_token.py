"""RenewDelegationToken (39), 1 and 2: lets a token expire later, within its maximum lifetime (KIP-48)."""

from __future__ import annotations

from pybroker.cluster.decisions.token_changes import renew
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.forwarding import forwarded
from pybroker.handlers.common.security.tokens import found, times
from pyclient.protocol import RenewDelegationToken, errors

Response = RenewDelegationToken.Response


async def _renew(request: RenewDelegationToken.Request, call: Call) -> RenewDelegationToken.Response:
    try:
        token_id = found(call, request.hmac)
        principal, period_ms = call.principal, request.renew_period_ms
        lives, now_ms = times(call), call.broker.clock.now_ms()
        expiry = await call.broker.controller.change_tokens(
            lambda image: renew(image, token_id, principal, period_ms, lives, now_ms)
        )
    except errors.KafkaError as error:
        return Response(error_code=error.code)
    return Response(expiry_timestamp_ms=expiry)


handle = forwarded(RenewDelegationToken, _renew)
"""Answers with the new time of expiry, or an error."""
