"""GSSAPI (RFC 4752) at the broker: a client shows a Kerberos ticket for the broker's service.

The library's calls may block, so each step runs on a thread. It uses no network: the key of the service, in its keytab,
proves a ticket.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, Final, Protocol

from pybroker.config import ConfigError
from pybroker.config.sasl_listeners import Kerberos
from pybroker.security.sasl.authentication import BadMessage
from pybroker.security.short_names import ShortNames
from pyclient.protocol import gssapi
from pyclient.security import kerberos
from pyclient.security.kerberos import KerberosError, told

_STORE: Final = "keytab"


class Acceptor(gssapi.Context, Protocol):
    """The broker's side of an exchange."""

    @property
    def principal(self) -> str:
        """The client's principal, once both sides are authenticated. Raises KerberosError."""


class Kerberized:
    """The mechanism, with the service of one listener."""

    def __init__(self, accept: Callable[[], Acceptor], names: ShortNames, pool: Executor) -> None:
        """``pool`` runs the steps."""
        self._accept = accept
        self._names = names
        self._pool = pool

    def begin(self) -> KerberosExchange:
        """Begins one authentication."""
        return KerberosExchange(self._accept(), self._names, self._pool)


class KerberosExchange:
    """The messages of one authentication. Tokens come until both sides are authenticated; then the broker offers
    layers, and the client chooses one.
    """

    lifetime_ms = 0
    is_by_token = False

    def __init__(self, context: Acceptor, names: ShortNames, pool: Executor) -> None:
        self._context = context
        self._names = names
        self._pool = pool
        self._steps = 0
        self._has_offered = False
        self.user: str | None = None

    def on_message(self, message: bytes) -> Future[bytes]:
        """Returns a future of the answer, which a thread makes. The call and the future may raise BadMessage."""
        self._steps += 1
        if len(message) > gssapi.MOST_BYTES or self._steps > gssapi.MOST_STEPS:
            raise BadMessage(f"more than {gssapi.MOST_STEPS} messages, or one of more than {gssapi.MOST_BYTES} bytes")
        return self._pool.submit(self._step, message)

    def _step(self, message: bytes) -> bytes:
        try:
            return self._on_choice(message) if self._has_offered else self._on_token(message)
        except ValueError as error:
            raise BadMessage(str(error)) from None

    def _on_token(self, message: bytes) -> bytes:
        context = self._context
        if not context.is_complete:
            token = context.step(message)
            if token or not context.is_complete:
                return token
        elif message:
            raise BadMessage("a token came after the last one")
        self._has_offered = True
        return context.wrap(gssapi.NONE_ONLY)

    def _on_choice(self, message: bytes) -> bytes:
        """Handles the client's choice. A name may follow, to act as another user; it is ignored, as in Kafka."""
        choice = self._context.unwrap(message)
        if not gssapi.has_none(choice) or choice[0] != gssapi.NO_LAYER:
            raise BadMessage("the client wants to sign or encrypt each message")
        self.user = self._names.user(self._context.principal)
        return b""


class _Accepting(kerberos.Context):
    """The accepting context of the library."""

    def __init__(self, library: Any, credentials: Any) -> None:
        super().__init__(library)
        self._credentials = credentials

    def make(self) -> Any:
        return self._gssapi.SecurityContext(creds=self._credentials, usage="accept")

    @property
    def principal(self) -> str:
        with told():
            if self._gssapi.RequirementFlag.anonymity in self._context.actual_flags:
                raise KerberosError("the client is anonymous")
            return str(self._context.initiator_name)


def kerberized(listener: str, settings: Kerberos, pool: Executor) -> Kerberized:
    """Returns the mechanism, with the service's key, which must be in the keytab. Raises ConfigError."""
    where = f"listener {listener}: GSSAPI: "
    try:
        library = kerberos.library()
        names = short_names(library, settings)
        credentials = _credentials(library, settings)
    except ValueError as error:
        raise ConfigError(f"{where}{error}") from None
    return Kerberized(lambda: _Accepting(library, credentials), names, pool)


def short_names(library: Any, settings: Kerberos) -> ShortNames:
    """Returns the rules of a listener. Raises ValueError."""
    return ShortNames(settings.rules, _default_realm(library))


def _credentials(library: Any, settings: Kerberos) -> Any:
    """Returns the credentials. Each step reads the keytab, so a new keytab is used at once. Raises KerberosError."""
    store = {_STORE: settings.keytab} if settings.keytab else None
    try:
        with told():
            name = library.Name(settings.principal, library.NameType.kerberos_principal)
            return library.Credentials(name=name, usage="accept", mechs=[library.MechType.kerberos], store=store)
    except KerberosError as error:
        keytab = settings.keytab or "the keytab of krb5.conf"
        raise KerberosError(f"{keytab} does not serve {settings.principal}: {error}") from None


def _default_realm(library: Any) -> str:
    """Returns the default realm of krb5.conf, empty if it has none."""
    try:
        with told():
            name = library.Name("name", library.NameType.kerberos_principal)
            return str(name.canonicalize(library.MechType.kerberos)).partition("@")[2]
    except KerberosError:
        return ""
