"""Finds the quotas of a client, by user and client id (KIP-13, KIP-55, KIP-124, KIP-599).

For each kind of quota the first match is used, in the order of ``matching``. All clients for which a quota is set share
it: the clients of a user with a quota use it together. A quota for any user gives each user a separate one. The state
about clients is bounded, because a client may choose any client id.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final, Protocol, TypeVar

from cy.quota import Allowance, Share
from pybroker.quotas.keys import DEFAULT, FETCH, MUTATIONS, PRODUCE, REQUEST, Quotas
from pybroker.quotas.rate import TokenBucket, Windows

MOST_CLIENTS: Final = 10_000
"""How many clients are remembered. Beyond that, idle clients are forgotten. If these are few, ``PART`` of the clients
within their quota are forgotten instead.

So if somebody makes up client ids, a client that has exceeded its quota is not forgotten, and still has to wait.
"""
PART: Final = MOST_CLIENTS // 10
LONGEST: Final = 255
"""How many characters of a client id are used, so that ids do not fill memory. Longer ids with the same beginning count
as one.
"""


class Used(Protocol):
    """The recorded use of a client."""

    def is_idle(self, now_ms: int) -> bool:
        """Returns whether the use can be forgotten without effect."""
        ...

    def delay_ms(self, now_ms: int) -> float:
        """Returns how long a client would have to wait now."""
        ...


K = TypeVar("K")
U = TypeVar("U", bound=Used)
T = TypeVar("T", Allowance, "Permits")
Sharers = tuple[str | None, str | None]
"""The user and client id of the clients that share a quota."""


class Permits:
    """How many partitions some clients may create and delete per second, and how many permits they have left."""

    __slots__ = ("bound", "bucket")

    def __init__(self, windows: Windows) -> None:
        self.bound = 0.0
        self.bucket = TokenBucket(windows)

    def delay_ms(self, now_ms: int) -> int:
        """Returns how many milliseconds to wait before the next change."""
        return self.bucket.delay_ms(self.bound, now_ms)

    def take(self, permits: float, now_ms: int) -> None:
        """Records changes, whether or not they are within the quota."""
        self.bucket.take(permits, self.bound, now_ms)

    def is_idle(self, now_ms: int) -> bool:
        return self.bucket.is_idle(now_ms)


class ClientQuotas:
    """The quotas of all clients of a broker."""

    def __init__(self, windows: Windows, of_controller: Windows) -> None:
        """``of_controller`` has the settings ``controller.quota.window.…``."""
        self.limit_time = False
        """True if any client has a quota of loop time."""
        self._bounds: dict[str, dict[Sharers, float]] = {}
        self.known: dict[tuple[str, str | None], Share] = {}
        """The results of ``share``, by principal and the first characters (``LONGEST``) of the client id."""
        self._produce: dict[Sharers, Allowance] = {}
        self._fetch: dict[Sharers, Allowance] = {}
        self._request: dict[Sharers, Allowance] = {}
        self._mutations: dict[Sharers, Permits] = {}
        self._windows = windows
        self._of_controller = of_controller

    def update(self, quotas: Quotas) -> None:
        """Sets the quotas. Earlier use still counts."""
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
        """Returns the quotas of a client of ``principal`` (``User:alice``)."""
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
                self._forget()  # shares refer to state that was forgotten
            allowance = known[sharers] = make()
        allowance.bound = bound
        return allowance


def matching(bounds: dict[Sharers, float] | None, user: str, client: str) -> tuple[Sharers, float] | None:
    """Returns which clients share the quota of this client, and the quota's bound; None if there is no quota."""
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
    """Forgets some entries if the limit is reached; returns whether it did."""
    if len(known) < MOST_CLIENTS:
        return False
    gone = [key for key, each in known.items() if each.is_idle(now_ms)]
    if len(gone) < PART:
        gone = list(islice((key for key, each in known.items() if not each.delay_ms(now_ms)), PART))
    for key in gone or list(islice(known, PART)):
        del known[key]
    return True


def has_client_quotas(quotas: Quotas) -> bool:
    """Returns whether any quota is set for users or client ids."""
    return any(entity.ip is None and values for entity, values in quotas.items())
