"""CreateDelegationToken (38), 1 to 3: creates a token, with which its holder logs in as the owner (KIP-48, KIP-373)."""

from __future__ import annotations

import secrets

from pybroker.cluster.decisions.token_changes import NewToken, create
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.forwarding import forwarded
from pybroker.handlers.common.security.rights import CREATE_TOKENS_USER, may
from pybroker.handlers.common.security.tokens import joined, known, secret_key, split, times
from pybroker.security.tokens import mac
from pyclient.protocol import CreateDelegationToken, errors

Response = CreateDelegationToken.Response

ID_BYTES = 16


async def _create(request: CreateDelegationToken.Request, call: Call) -> CreateDelegationToken.Response:
    response = Response()
    response.principal_type, response.principal_name = split(call.principal)
    try:
        key, tokens = secret_key(call), known(call)
        wanted = _wanted(request, call)
        now_ms, lives = call.broker.clock.now_ms(), times(call)
        token = await call.broker.controller.change_tokens(
            lambda _: create(wanted, tokens.requested_by(wanted.requester), lives, now_ms)
        )
    except errors.KafkaError as error:
        response.error_code = error.code
        return response
    response.principal_type, response.principal_name = split(token.owner)
    requester = split(token.requester)
    response.token_requester_principal_type, response.token_requester_principal_name = requester
    response.token_id, response.hmac = token.id, mac(key, token.id)
    response.issue_timestamp_ms, response.expiry_timestamp_ms = token.issued_ms, token.expires_ms
    response.max_timestamp_ms = token.most_ms
    return response


handle = forwarded(CreateDelegationToken, _create)
"""Answers with the token and its MAC, or an error. This broker accepts the token at once, the others soon after."""


def _wanted(request: CreateDelegationToken.Request, call: Call) -> NewToken:
    owner = call.principal
    if request.owner_principal_name:
        owner = joined(request.owner_principal_type or "", request.owner_principal_name)
    if owner != call.principal and not may(call, CREATE_TOKENS_USER, owner):
        raise errors.DelegationTokenAuthorizationFailed
    renewers = tuple(joined(each.principal_type, each.principal_name) for each in request.renewers)
    id = "t" + secrets.token_urlsafe(ID_BYTES)  # begins unlike any command-line option
    return NewToken(id, owner, call.principal, renewers, request.max_lifetime_ms)
