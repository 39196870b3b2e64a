"""Delegation tokens (KIP-48): create, renew, expire and find them."""

from __future__ import annotations

from collections.abc import Iterable

from pyclient.admin.base import Base, names
from pyclient.admin.security_types import DelegationToken
from pyclient.errors import UnsupportedByBroker
from pyclient.errors import check as check_code
from pyclient.protocol import (
    CreateDelegationToken,
    DescribeDelegationToken,
    ExpireDelegationToken,
    RenewDelegationToken,
)


class Tokens(Base):
    """The part of the admin client for delegation tokens."""

    async def create_delegation_token(
        self,
        *,
        renewers: str | Iterable[str] = (),
        owner: str | None = None,
        max_lifetime_ms: int = -1,
        timeout: float | None = None,
    ) -> DelegationToken:
        """Creates a token for this client's user, or for another ``owner`` (KIP-373).

        Owner and renewers are written ``User:alice``. A lifetime of -1 is the longest that the broker allows. A client
        that logged in by a token cannot create tokens. Raises DelegationTokenAuthDisabled,
        DelegationTokenRequestNotAllowed, DelegationTokenAuthorizationFailed.
        """
        request = CreateDelegationToken.Request
        rows = [
            request.CreatableRenewers(principal_type=kind, principal_name=name)
            for kind, name in map(_principal, names(renewers))
        ]
        owned = (None, None) if owner is None else _principal(owner)

        def message(version: int) -> CreateDelegationToken.Request:
            built = request(renewers=rows, max_lifetime_ms=max_lifetime_ms)
            if version >= 3:
                built.owner_principal_type, built.owner_principal_name = owned
            elif owner is not None:
                raise UnsupportedByBroker("the broker is too old to create tokens for other owners")
            return built

        response = await self._at_controller(CreateDelegationToken, message, self._deadline(timeout))
        return DelegationToken(
            response.token_id,
            f"{response.principal_type}:{response.principal_name}",
            _requester(response),
            tuple(f"{row.principal_type}:{row.principal_name}" for row in rows),
            response.issue_timestamp_ms,
            response.expiry_timestamp_ms,
            response.max_timestamp_ms,
            bytes(response.hmac),
        )

    async def renew_delegation_token(
        self, hmac: bytes, *, renew_period_ms: int = -1, timeout: float | None = None
    ) -> int:
        """Makes a token valid for this time from now on, up to its maximum lifetime; -1 is the broker's default.

        Returns the time at which it expires, in ms. Raises DelegationTokenNotFound, DelegationTokenOwnerMismatch,
        DelegationTokenExpired.
        """
        message = RenewDelegationToken.Request(hmac=hmac, renew_period_ms=renew_period_ms)
        response = await self._at_controller(RenewDelegationToken, message, self._deadline(timeout))
        return int(response.expiry_timestamp_ms)

    async def expire_delegation_token(
        self, hmac: bytes, *, expiry_time_period_ms: int = -1, timeout: float | None = None
    ) -> int:
        """Makes a token expire after this time; -1 deletes it at once. Returns the time at which it expires, in ms.

        Raises DelegationTokenNotFound, DelegationTokenOwnerMismatch, DelegationTokenExpired.
        """
        message = ExpireDelegationToken.Request(hmac=hmac, expiry_time_period_ms=expiry_time_period_ms)
        response = await self._at_controller(ExpireDelegationToken, message, self._deadline(timeout))
        return int(response.expiry_timestamp_ms)

    async def describe_delegation_tokens(
        self, owners: str | Iterable[str] | None = None, *, timeout: float | None = None
    ) -> list[DelegationToken]:
        """Returns the tokens of these owners (``User:alice``), or all, as far as this client's user may describe them.
        """
        request = DescribeDelegationToken.Request
        rows = None
        if owners is not None:
            rows = [
                request.DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
                for kind, name in map(_principal, names(owners))
            ]
        deadline = self._deadline(timeout)

        async def attempt() -> DescribeDelegationToken.Response:
            message, node = request(owners=rows), self._client.nodes.any_node()
            response: DescribeDelegationToken.Response
            response = await self._client.send(node, DescribeDelegationToken, message)
            check_code(response.error_code)
            return response

        response = await self._client.retrying(attempt, deadline=deadline)
        return [
            DelegationToken(
                row.token_id,
                f"{row.principal_type}:{row.principal_name}",
                _requester(row),
                tuple(f"{each.principal_type}:{each.principal_name}" for each in row.renewers),
                row.issue_timestamp,
                row.expiry_timestamp,
                row.max_timestamp,
                bytes(row.hmac),
            )
            for row in response.tokens
        ]


def _principal(text: str) -> tuple[str, str]:
    """Returns type and name. Raises ValueError."""
    kind, mark, name = text.partition(":")
    if not kind or not mark or not name:
        raise ValueError(f"principal {text!r} is not TYPE:NAME, such as User:alice")
    return kind, name


def _requester(
    row: CreateDelegationToken.Response | DescribeDelegationToken.Response.DescribedDelegationToken,
) -> str | None:
    """Returns the user who created a token; brokers tell it from version 3 on."""
    if not row.token_requester_principal_name:
        return None
    return f"{row.token_requester_principal_type}:{row.token_requester_principal_name}"
