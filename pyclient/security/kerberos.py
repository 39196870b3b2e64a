"""The Kerberos library, ``gssapi`` of PyPI, which is an extra: it is imported only for GSSAPI.

``Context`` is one side of an exchange, the client's or the broker's. Its calls may block: for the key distribution
center (KDC), for names of hosts, for files. Errors are ``KerberosError`` with advice.
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
"""The base of Kerberos' own error numbers, which the library makes positive; RFC 4120 counts from here."""
_UNREACHABLE: Final = 156
_OLD_KEY: Final = "the keytab has another key than the KDC: create it again"
_CLOCKS: Final = "the clocks differ by more than Kerberos allows (usually five minutes): set them on each machine"
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
    _UNREACHABLE: "is the KDC of krb5.conf running? KRB5_CONFIG sets another file",
    181: "does the file exist, and may this program read it?",
    195: _NO_TICKET,
    220: "does krb5.conf name a KDC of the realm? KRB5_CONFIG sets another file",
}
"""The messages by error number. Numbers from 156 are MIT's own."""
_PASSING: Final = frozenset({_UNREACHABLE, 220})


class KerberosError(ValueError):
    """One side could not authenticate to the other. ``lasts`` tells that another attempt will not help, and
    ``has_no_ticket`` that this side has no ticket.
    """

    def __init__(self, why: str, advice: str = "", *, lasts: bool = True) -> None:
        super().__init__(f"{why}; {advice}" if advice else why)
        self.lasts = lasts
        self.has_no_ticket = advice == _NO_TICKET


def library() -> Any:
    """Returns the library. Raises KerberosError if it is not installed."""
    try:
        return import_module("gssapi")
    except (ImportError, OSError) as error:
        why = "" if isinstance(error, ModuleNotFoundError) else f" ({error})"
        raise KerberosError(f"{MISSING}{why}") from None


@contextmanager
def told() -> Iterator[None]:
    """Converts errors of the library to KerberosErrors."""
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
    """One side of one exchange. ``make`` creates the library's context, at the first step."""

    def __init__(self, gssapi: Any) -> None:
        self._gssapi = gssapi
        self._context: Any = None

    def make(self) -> Any:
        """Creates the library's context."""
        raise NotImplementedError

    @property
    def is_complete(self) -> bool:
        """Whether both sides have authenticated each other."""
        return self._context is not None and bool(self._context.complete)

    def step(self, token: bytes) -> bytes:
        """Returns the next token to send, empty if there is none. Raises KerberosError."""
        with told():
            if self._context is None:
                self._context = self.make()
                self._context.__DEFER_STEP_ERRORS__ = False  # otherwise an error would be raised one step later
            return self._context.step(token or None) or b""

    def wrap(self, message: bytes) -> bytes:
        """Returns the signed message. Raises KerberosError."""
        with told():
            return bytes(self._context.wrap(message, False).message)

    def unwrap(self, message: bytes) -> bytes:
        """Returns the message that the other side signed. Raises KerberosError."""
        with told():
            return bytes(self._context.unwrap(message).message)
