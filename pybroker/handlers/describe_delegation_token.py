"""DescribeDelegationToken (41), 1 to 3: returns the tokens that the client may see (KIP-48, KIP-373)."""

from __future__ import annotations

from pybroker.cluster.decisions.token_changes import may_see
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import Paced, in_turns
from pybroker.handlers.common.security.rights import DESCRIBE_TOKEN, DESCRIBE_TOKENS_USER, may
from pybroker.handlers.common.security.tokens import secret_key, split
from pybroker.security.tokens import Token, mac
from pyclient.protocol import DescribeDelegationToken, errors

Response = DescribeDelegationToken.Response


@in_turns
def handle(request: DescribeDelegationToken.Request, call: Call) -> Paced[DescribeDelegationToken.Response]:
    """Answers with the tokens of this broker's metadata, with their MACs."""
    response = Response()
    try:
        key = secret_key(call)
    except errors.KafkaError as error:
        response.error_code = error.code
        return response
    owners = None
    if request.owners is not None:
        owners = {f"{each.principal_type}:{each.principal_name}" for each in request.owners}

    def allowed(token: Token) -> bool:
        return may(call, DESCRIBE_TOKEN, token.id, is_told=False) or may(
            call, DESCRIBE_TOKENS_USER, token.owner, is_told=False
        )

    for token in call.broker.metadata.image.tokens.values():
        yield
        if may_see(token, call.principal, owners, allowed):
            response.tokens.append(_described(token, key))
    return response


def _described(token: Token, key: str) -> Response.DescribedDelegationToken:
    kind, name = split(token.owner)
    requester_kind, requester_name = split(token.requester)
    renewers = [
        Response.DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
        for kind, name in map(split, token.renewers)
    ]
    return Response.DescribedDelegationToken(
        principal_type=kind,
        principal_name=name,
        token_requester_principal_type=requester_kind,
        token_requester_principal_name=requester_name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.most_ms,
        token_id=token.id,
        hmac=mac(key, token.id),
        renewers=renewers,
    )
