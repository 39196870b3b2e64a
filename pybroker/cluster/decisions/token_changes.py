"""The controller's decisions about delegation tokens (KIP-48, KIP-373), as pure functions; the time is an argument."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from pybroker.cluster.decisions.plan import Plan, Step
from pybroker.cluster.metadata import token_nodes
from pybroker.cluster.metadata.image import MetadataDelta, MetadataImage
from pybroker.security.tokens import Token
from pybroker.store.interface import Create, Delete, Set
from pyclient.protocol import errors

MOST_BYTES: Final = 1 << 14
"""How many bytes a token's node may have; many renewers would make it longer."""
MOST_TOKENS: Final = 10_000
"""How many tokens one requester may have, by weight. Kafka has no limit, but every broker keeps all tokens in memory.
"""
REMOVED_AT_ONCE: Final = 500


class Times(NamedTuple):
    """The times from the settings: ``most_ms`` is the longest lifetime of a token, ``period_ms`` the time until it must
    be renewed.
    """

    most_ms: int
    period_ms: int


class NewToken(NamedTuple):
    """A token to create. ``lifetime_ms`` is its longest lifetime; below 1 the settings decide."""

    id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    lifetime_ms: int


def create(wanted: NewToken, count: int, times: Times, now_ms: int) -> Plan[Token]:
    """Creates a token. ``count`` is how many tokens its requester has already.

    Raises InvalidRequest if the token does not fit into a node, and PolicyViolation if there are too many.
    """
    if count >= MOST_TOKENS:
        raise errors.PolicyViolation(f"{wanted.requester} already has {count} tokens, the most that a user may have")
    life_ms = min(wanted.lifetime_ms, times.most_ms) if wanted.lifetime_ms > 0 else times.most_ms
    most_ms = now_ms + life_ms
    token = Token(*wanted[:4], now_ms, min(most_ms, now_ms + times.period_ms), most_ms)
    data = token_nodes.encode(token)
    if len(data) > MOST_BYTES:
        raise errors.InvalidRequest("the token has too many renewers, or their names are too long")
    delta = MetadataDelta(tokens={token.id: token})
    return Plan(token, [Step([Create(token_nodes.path(token.id), data)], delta)])


def renew(
    image: MetadataImage, token_id: str | None, principal: str, period_ms: int, times: Times, now_ms: int
) -> Plan[int]:
    """Renews a token. Returns when it now expires. Raises KafkaError."""
    token = _own(image, token_id, principal)
    return _until(token, period_ms if period_ms >= 0 else times.period_ms, now_ms)


def expire(image: MetadataImage, token_id: str | None, principal: str, period_ms: int, now_ms: int) -> Plan[int]:
    """Sets when a token expires, and returns that time. A negative period lets it expire now. Raises KafkaError."""
    token = _own(image, token_id, principal)
    if period_ms < 0:
        return Plan(now_ms, [_removal([token.id])])
    return _until(token, period_ms, now_ms)


def _own(image: MetadataImage, token_id: str | None, principal: str) -> Token:
    token = None if token_id is None else image.tokens.get(token_id)
    if token is None:
        raise errors.DelegationTokenNotFound
    if principal not in token.principals:
        raise errors.DelegationTokenOwnerMismatch
    return token


def _until(token: Token, period_ms: int, now_ms: int) -> Plan[int]:
    if token.is_expired(now_ms):
        raise errors.DelegationTokenExpired
    changed = token._replace(expires_ms=min(token.most_ms, now_ms + period_ms))
    write = Set(token_nodes.path(token.id), token_nodes.encode(changed))
    return Plan(changed.expires_ms, [Step([write], MetadataDelta(tokens={token.id: changed}))])


def remove_expired(image: MetadataImage, now_ms: int) -> Plan[list[str]]:
    """Removes expired tokens and returns their ids."""
    ids = [token.id for token in image.tokens.values() if token.is_expired(now_ms)]
    return Plan(ids, [_removal(ids[at : at + REMOVED_AT_ONCE]) for at in range(0, len(ids), REMOVED_AT_ONCE)])


def _removal(ids: Collection[str]) -> Step:
    return Step([Delete(token_nodes.path(each)) for each in ids], MetadataDelta(tokens=dict.fromkeys(ids)))


def may_see(token: Token, principal: str, owners: set[str] | None, allowed: Callable[[Token], bool]) -> bool:
    """Returns whether a principal that requests the tokens of these ``owners`` (None: of all) may see this token.

    ``allowed`` tells whether the principal has the right to see a token that is not its own.
    """
    if owners is not None and owners.isdisjoint(token.principals):
        return False
    return principal in token.principals or allowed(token)
