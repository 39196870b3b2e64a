"""The library of Kerberos, ``gssapi`` of PyPI, which is an extra: imported only where GSSAPI is asked for.

``Context`` is one side of an exchange, the client's or the broker's. Its calls may block: for the key distribution
center (KDC), for names of hosts, for files. What goes wrong is a ``KerberosError`` that says what to look at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

MISSING: Final = (
    "GSSAPI needs the library gssapi: pip install 'pybroker[gssapi]', which compiles it "
    "(on Debian: apt install gcc libkrb5-dev python3-dev)"
)
_BASE: Final = 2**32 - 1_765_328_384
"""Of the numbers of Kerberos' own errors, where the library makes them positive; RFC 4120 counts from here."""
_UNREACHABLE: Final = 156
_OLD_KEY: Final = "the keytab has another key than the KDC: make it again"
_CLOCKS: Final = "the clocks differ by more than Kerberos allows, five minutes as a rule: set them on each machine"
_NO_TICKET: Final = "run kinit, or set sasl.kerberos.keytab and sasl.kerberos.principal"
_ADVICE: Final[Mapping[int, str]] = {
    6: "the KDC does not know the principal: is its name right, and its realm?",
    7: "does sasl.kerberos.service.name name the broker's service, and does the KDC know SERVICE/HOST of that address?",
    24: _OLD_KEY,
    31: _OLD_KEY,
    32: "the ticket has expired: kinit makes a new one",
    33: _CLOCKS,
    34: "the same message came twice",
    35: "the ticket is for another service: is sasl.kerberos.service.name right?",
    37: _CLOCKS,
    41: _OLD_KEY,
    44: _OLD_KEY,
    _UNREACHABLE: "is the KDC of krb5.conf up? KRB5_CONFIG names another file",
    181: "is the file there, and may this program read it?",
    195: _NO_TICKET,
    220: "does krb5.conf name a KDC of the realm? KRB5_CONFIG names another file",
}
"""By the number of the error; 156 and what follows are MIT's own."""
_PASSING: Final = frozenset({_UNREACHABLE, 220})


class KerberosError(ValueError):
    """The other side could not be proved, or this one to it. ``lasts``: the next attempt will do no better.
    ``has_no_ticket``: there is nothing to prove it with.
    """

    def __init__(self, why: str, advice: str = "", *, lasts: bool = True) -> None:
        super().__init__(f"{why}; {advice}" if advice else why)
        self.lasts = lasts
        self.has_no_ticket = advice == _NO_TICKET


def library() -> Any:
    """The module. Raises KerberosError where it is not installed."""
    try:
        return import_module("gssapi")
    except (ImportError, OSError) as error:
        why = "" if isinstance(error, ModuleNotFoundError) else f" ({error})"
        raise KerberosError(f"{MISSING}{why}") from None


@contextmanager
def told() -> Iterator[None]:
    """Makes errors of the library KerberosErrors."""
    gssapi = library()
    try:
        yield
    except gssapi.exceptions.GSSError as error:
        minor = error.min_code
        why = " ".join(error.get_all_statuses(minor, False) if minor else error.get_all_statuses(error.maj_code, True))
        number = minor - _BASE
        advice = _NO_TICKET if isinstance(error, gssapi.exceptions.MissingCredentialsError) else ""
        raise KerberosError(why, _ADVICE.get(number, advice), lasts=number not in _PASSING) from None


class Context:
    """One side of one exchange. ``make`` makes the library's context, at the first step."""

    def __init__(self, gssapi: Any) -> None:
        self._gssapi = gssapi
        self._context: Any = None

    def make(self) -> Any:
        """The library's context, which begins."""
        raise NotImplementedError

    @property
    def is_complete(self) -> bool:
        """Both sides know each other."""
        return self._context is not None and bool(self._context.complete)

    def step(self, token: bytes) -> bytes:
        """The next token to send, empty where there is none. Raises KerberosError."""
        with told():
            if self._context is None:
                self._context = self.make()
                self._context.__DEFER_STEP_ERRORS__ = False  # else what is wrong would be told a step later
            return self._context.step(token or None) or b""

    def wrap(self, message: bytes) -> bytes:
        """The message, signed. Raises KerberosError."""
        with told():
            return bytes(self._context.wrap(message, False).message)

    def unwrap(self, message: bytes) -> bytes:
        """What the other side has signed. Raises KerberosError."""
        with told():
            return bytes(self._context.unwrap(message).message)
