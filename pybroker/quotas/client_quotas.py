"""What holds for a client, by user and client id (KIP-13, KIP-55, KIP-124, KIP-599).

Of the quotas of a kind the first that matches holds, in the order of ``matching``. Those that it is set for share it:
the clients of a user with a quota use it together. Where it is set for any user, each has one of its own.

All that is remembered of clients is bounded, as anybody may give any client id.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final, Protocol, TypeVar

from cy.quota import Allowance, Share
from pybroker.quotas.keys import DEFAULT, FETCH, MUTATIONS, PRODUCE, REQUEST, Quotas
from pybroker.quotas.rate import TokenBucket, Windows

MOST_CLIENTS: Final = 10_000
"""So many clients are remembered; of more, those that are idle are forgotten, or else the oldest ``PART``."""
PART: Final = MOST_CLIENTS // 10
LONGEST: Final = 255
"""Characters of a client id; of longer ones those that begin alike are one, so that they do not fill memory."""


class Used(Protocol):
    """What is remembered of a client's use."""

    def is_idle(self, now_ms: int) -> bool:
        """Whether nothing would be lost with it."""
        ...


K = TypeVar("K")
U = TypeVar("U", bound=Used)
T = TypeVar("T", Allowance, "Permits")
Sharers = tuple[str | None, str | None]
"""The clients that use a quota together: of this user, of this client id."""


class Permits:
    """How many partitions some clients may create and delete per second, and what they have done."""

    __slots__ = ("bound", "bucket")

    def __init__(self, windows: Windows) -> None:
        self.bound = 0.0
        self.bucket = TokenBucket(windows)

    def delay_ms(self, now_ms: int) -> int:
        """How long to wait until something may be done."""
        return self.bucket.delay_ms(self.bound, now_ms)

    def take(self, permits: float, now_ms: int) -> None:
        """Something is done, whether it may or not."""
        self.bucket.take(permits, self.bound, now_ms)

    def is_idle(self, now_ms: int) -> bool:
        return self.bucket.is_idle(now_ms)


class ClientQuotas:
    """The quotas of all clients of a broker."""

    def __init__(self, windows: Windows, of_controller: Windows) -> None:
        """``of_controller``: ``controller.quota.window.…``."""
        self.limit_time = False
        """Whether any client has a quota of time."""
        self._bounds: dict[str, dict[Sharers, float]] = {}
        self.known: dict[tuple[str, str | None], Share] = {}
        """What ``share`` has returned, by principal and the first characters (``LONGEST``) of the client id."""
        self._produce: dict[Sharers, Allowance] = {}
        self._fetch: dict[Sharers, Allowance] = {}
        self._request: dict[Sharers, Allowance] = {}
        self._mutations: dict[Sharers, Permits] = {}
        self._windows = windows
        self._of_controller = of_controller

    def update(self, quotas: Quotas) -> None:
        """These hold from now on. What was used before counts."""
        self._forget()
        self._bounds = {}
        for entity, values in quotas.items():
            for key, bound in values.items():
                if entity.ip is None:
                    self._bounds.setdefault(key, {})[entity.user, entity.client] = bound
        self.limit_time = REQUEST in self._bounds

    def _forget(self) -> None:
        for share in self.known.values():
            share.is_current = False
        self.known.clear()

    def share(self, principal: str, client_id: str | None, now_ms: int) -> Share:
        """What holds for a client of ``principal`` (``User:alice``)."""
        if client_id is not None and len(client_id) > LONGEST:
            client_id = client_id[:LONGEST]
        return self.known.get((principal, client_id)) or self._find(principal, client_id, now_ms)

    def _find(self, principal: str, client_id: str | None, now_ms: int) -> Share:
        user, client, windows = principal.partition(":")[2], client_id or DEFAULT, self._windows
        share = Share(
            self._of(PRODUCE, self._produce, lambda: Allowance(windows), user, client, now_ms),
            self._of(FETCH, self._fetch, lambda: Allowance(windows), user, client, now_ms),
            self._of(REQUEST, self._request, lambda: Allowance(windows, windows.size_ms), user, client, now_ms),
            self._of(MUTATIONS, self._mutations, lambda: Permits(self._of_controller), user, client, now_ms),
        )
        if len(self.known) >= MOST_CLIENTS:
            self._forget()
        self.known[principal, client_id] = share
        return share

    def _of(
        self, key: str, known: dict[Sharers, T], make: Callable[[], T], user: str, client: str, now_ms: int
    ) -> T | None:
        found = matching(self._bounds.get(key), user, client)
        if found is None:
            return None
        sharers, bound = found
        allowance = known.get(sharers)
        if allowance is None:
            if make_room(known, now_ms):
                self._forget()  # they have what is forgotten
            allowance = known[sharers] = make()
        allowance.bound = bound
        return allowance


def matching(bounds: dict[Sharers, float] | None, user: str, client: str) -> tuple[Sharers, float] | None:
    """The clients that use the quota of one of ``user`` together, and its bound; None where it has none."""
    if not bounds:
        return None
    for of_user, of_client in (
        (user, client),
        (user, DEFAULT),
        (user, None),
        (DEFAULT, client),
        (DEFAULT, DEFAULT),
        (DEFAULT, None),
        (None, client),
        (None, DEFAULT),
    ):
        bound = bounds.get((of_user, of_client))
        if bound is not None:
            return (None if of_user is None else user, None if of_client is None else client), bound
    return None


def make_room(known: dict[K, U], now_ms: int) -> bool:
    """Forgets some where as many as may be are remembered; whether it did."""
    if len(known) < MOST_CLIENTS:
        return False
    gone = [key for key, each in known.items() if each.is_idle(now_ms)]
    for key in gone if len(gone) >= PART else list(islice(known, PART)):
        del known[key]
    return True


def has_client_quotas(quotas: Quotas) -> bool:
    """Whether any quota is set that is not of an address."""
    return any(entity.ip is None and values for entity, values in quotas.items())
